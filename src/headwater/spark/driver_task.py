"""A DataFrame's plan run as a task of the driver's own: by the thread that asks, without a job of Spark's.

Made by `views.tables.kept_plan`. A job costs what it costs for one row as for a thousand: the plan's RDD is
cleaned, serialized, scheduled, sent, deserialized, and listeners are told of all of it. The rows of a small
batch are in the driver, and so is the RDD. So the driver's JVM computes its partitions itself, one after the
other, with what an executor puts around a task (`DriverTask.java`): it is the same RDD, with the same
generated code. Spark has no call for that; the few lines of Java that are needed are compiled, once per JVM,
by the compiler that Spark brings along for its own generated code.

Where this Spark is another one than those lines were written for, or where there are more rows than
`RESULT_BYTES` or `MEMORY_BYTES` allow, the plan is to be run as a job.
"""

from __future__ import annotations

import struct
import threading
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject, JVMView
    from pyspark.sql import DataFrame

MEMORY_BYTES = 128 << 20
"""For the sorts and hash tables of one plan; beyond it they go to disk, or the plan becomes a job."""
RESULT_BYTES = 32 << 20
_LENGTH = struct.Struct(">q")
_CLASS = "headwater.DriverTask"
_MAKING = threading.Lock()
_COMPILED: dict[int, JavaObject] = {}
"""By gateway: Py4J knows a class by its name, so a JVM must have but one of this name."""


class DriverTask:
    """The plan of a DataFrame; for one thread."""

    def __init__(self, task: JavaObject, schema: pa.Schema) -> None:
        self._task, self._schema = task, schema

    def run(self, rows: Iterable[bytes]) -> pa.Table | None:
        """The plan's rows, with these, serialized, in its leaves. None: it must be run as a job."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        given = b"".join(_LENGTH.pack(len(each)) + each for each in rows)
        try:
            found = b64decode(self._task.run(given))
        except (Py4JError, PySparkException):
            return None
        batches = [pa.ipc.read_record_batch(part, self._schema) for part in _parts(found)]
        return pa.Table.from_batches(batches, schema=self._schema)


def driver_task(frame: DataFrame, leaves: Sequence[JavaObject]) -> DriverTask | None:
    """`leaves`: Java arrays whose first value is what a leaf of the plan reads, in the order of `run`.

    None where this Spark has no such task.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    spark = frame.sparkSession
    context, jvm = spark.sparkContext, spark._jvm
    gateway = context._gateway
    assert jvm is not None and gateway is not None
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
    schema = to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=large)
    try:
        settings, values = jvm.java.util.Properties(), jvm.java.util.ArrayList()
        settings.putAll(spark._jsparkSession.conf().getAllAsJava())
        for leaf in leaves:
            values.add(leaf)
        conf = context._jsc.sc().conf()
        memory = jvm.org.apache.spark.memory.UnifiedMemoryManager(conf, MEMORY_BYTES, 0, 1)
        arguments = (frame._jdf.toArrowBatchRdd(), conf, values, memory, settings, RESULT_BYTES)
        given = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for n, argument in enumerate(arguments):
            given[n] = argument
        (constructor,) = _compiled(gateway, jvm).getConstructors()
        return DriverTask(constructor.newInstance(given), schema)
    except (Py4JError, PySparkException):
        return None


def _compiled(gateway: JavaGateway, jvm: JVMView) -> JavaObject:
    with _MAKING:
        if id(gateway) not in _COMPILED:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
            compiler.cook(Path(__file__).with_name("DriverTask.java").read_text())
            _COMPILED[id(gateway)] = compiler.getClassLoader().loadClass(_CLASS)
        return _COMPILED[id(gateway)]


def _parts(found: bytes) -> Iterator[pa.Buffer]:
    whole, at = pa.py_buffer(found), 0
    while at < len(found):
        (length,) = _LENGTH.unpack_from(found, at)
        yield whole.slice(at + _LENGTH.size, length)
        at += _LENGTH.size + length
