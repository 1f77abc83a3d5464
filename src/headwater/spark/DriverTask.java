package headwater;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.SparkConf;
import org.apache.spark.rdd.RDD;
import org.apache.spark.serializer.JavaSerializer;
import org.apache.spark.serializer.SerializerInstance;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Computes an RDD of byte arrays in the thread that asks for it; see driver_task.py, which has it compiled by
 * Spark's own compiler (Janino: no lambdas, no generics worth the name). Around a partition stands what an
 * executor puts around a task: a context, memory that is counted, both given back at the end, and a copy of the
 * RDD, since parts of a plan keep what they were doing in themselves.
 *
 * Rows go in and out as parts of one array: the length of each in eight bytes (so all are aligned), then the part.
 * Out as Base64, which Python reads quicker than what Py4J makes of an array.
 */
public final class DriverTask {
  private static final AtomicLong ids = new AtomicLong(1L << 40); // beyond those of Spark's own tasks
  private static final int CPUS = 10; // where the constructor of a context has them

  private static final ClassTag ANY = ClassTag$.MODULE$.apply(Object.class);

  private final SerializerInstance serializer;
  private final ByteBuffer rdd;
  private final Partition[] partitions;
  private final Object[][] leaves;
  private final MemoryManager memory;
  private final Properties settings;
  private final ClassLoader loader = Thread.currentThread().getContextClassLoader();
  private final int bytesMax;
  private final Constructor context;
  private final Object cpus;
  private final Object resources;

  /** leaves: arrays whose first value is what a leaf of the plan reads. */
  public DriverTask(
      RDD rdd, SparkConf conf, List leaves, MemoryManager memory, Properties settings, Integer bytesMax) {
    this.serializer = new JavaSerializer(conf).newInstance();
    resolve(rdd);
    this.rdd = serializer.serialize(rdd, ANY);
    this.partitions = rdd.partitions();
    this.leaves = new Object[leaves.size()][];
    for (int n = 0; n < leaves.size(); n++) {
      this.leaves[n] = (Object[]) leaves.get(n);
    }
    this.memory = memory;
    this.settings = settings;
    this.bytesMax = bytesMax.intValue();
    this.context = TaskContextImpl.class.getConstructors()[0];
    boolean isWhole = context.getParameterTypes()[CPUS] == Integer.TYPE; // until Spark 4.2
    this.cpus = isWhole ? (Object) Integer.valueOf(1) : scala.math.BigDecimal$.MODULE$.int2bigDecimal(1);
    this.resources = TaskContext$.MODULE$.empty().resources();
  }

  /** An RDD finds out what it depends on when it is asked, which a copy cannot any more. */
  private static void resolve(RDD rdd) {
    Iterator each = rdd.dependencies().iterator();
    while (each.hasNext()) {
      resolve(((Dependency) each.next()).rdd());
    }
  }

  /** The RDD's values, with these in the leaves. */
  public String run(byte[] given) throws Exception {
    ByteBuffer parts = ByteBuffer.wrap(given);
    for (int n = 0; n < leaves.length; n++) {
      byte[] part = new byte[(int) parts.getLong()];
      parts.get(part);
      leaves[n][0] = part;
    }
    ByteArrayOutputStream found = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(found);
    for (int n = 0; n < partitions.length; n++) {
      compute(n, out);
    }
    return Base64.getEncoder().encodeToString(found.toByteArray());
  }

  private void compute(int number, DataOutputStream out) throws Exception {
    Long id = Long.valueOf(ids.incrementAndGet());
    TaskMemoryManager pages = new TaskMemoryManager(memory, id.longValue());
    Integer zero = Integer.valueOf(0);
    TaskContextImpl task = (TaskContextImpl) context.newInstance(new Object[] {
        zero, zero, Integer.valueOf(number), id, zero, Integer.valueOf(partitions.length),
        pages, settings, null, TaskMetrics.empty(), cpus, resources});
    TaskContext$.MODULE$.setTaskContext(task);
    try {
      RDD own = (RDD) serializer.deserialize((ByteBuffer) rdd.duplicate(), loader, ANY);
      write(own.iterator(partitions[number], task), out);
    } finally {
      try {
        task.markTaskCompleted(scala.Option.empty());
      } finally {
        pages.cleanUpAllAllocatedMemory();
        TaskContext$.MODULE$.unset();
      }
    }
  }

  private void write(Iterator found, DataOutputStream out) throws IOException {
    while (found.hasNext()) {
      byte[] part = (byte[]) found.next();
      if (part.length > bytesMax - out.size()) {
        throw new IOException("more than " + bytesMax + " bytes of rows: a job of Spark's is to compute them");
      }
      out.writeLong(part.length);
      out.write(part);
    }
  }
}
