import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine, sending Avro to a broker, with its schemas in a registry: by Kafka Connect's rules for
 * Avro (AvroData, in Apicurio's copy: Confluent's is not on Maven Central) and the five bytes of Confluent's
 * converter. Words: the settings' file, the broker, the registry.
 */
public final class AvroEngine {
    private static final Pattern ID = Pattern.compile("\"id\"\\s*:\\s*(\\d+)");
    private final AvroData avro = new AvroData(100);
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<String, Integer> known = new HashMap<>();
    private final String registry;

    private AvroEngine(String registry) {
        this.registry = registry;
    }

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(words[0])) {
            settings.load(file);
        }
        Properties sending = new Properties();
        sending.put("bootstrap.servers", words[1]);
        sending.put("acks", "all");
        AvroEngine encoder = new AvroEngine(words[2]);
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(sending, new ByteArraySerializer(), new ByteArraySerializer());
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine =
                DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                        .using(settings)
                        .using((success, message, error) -> {
                            if (!success) {
                                System.err.println("engine: " + message + " " + error);
                                System.exit(1);
                            }
                        })
                        .notifying((List<RecordChangeEvent<SourceRecord>> records,
                                DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer) -> {
                            for (RecordChangeEvent<SourceRecord> each : records) {
                                SourceRecord record = each.record();
                                producer.send(new ProducerRecord<>(record.topic(),
                                        encoder.encoded(record, record.keySchema(), record.key(), "key"),
                                        encoder.encoded(record, record.valueSchema(), record.value(), "value")));
                                committer.markProcessed(each);
                            }
                            producer.flush();
                            committer.markBatchFinished();
                        })
                        .build();
        Thread running = new Thread(engine);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                engine.close();
                running.join(20_000);
            } catch (Exception error) {
                System.err.println("engine: " + error);
            }
        }));
        running.start();
        running.join();
    }

    private byte[] encoded(
            SourceRecord record, org.apache.kafka.connect.data.Schema schema, Object value, String part) {
        if (value == null) {
            return null;
        }
        try {
            Schema written = avro.fromConnectSchema(schema);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.write(0);
            out.write(ByteBuffer.allocate(4).putInt(id(record.topic() + "-" + part, written)).array());
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new GenericDatumWriter<Object>(written).write(avro.fromConnectData(schema, value), encoder);
            return out.toByteArray();
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
            return null;
        }
    }

    private int id(String subject, Schema schema) throws Exception {
        String text = schema.toString();
        Integer found = known.get(subject + text);
        if (found == null) {
            String body = "{\"schema\":\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"}";
            HttpRequest asked = HttpRequest.newBuilder(URI.create(registry + "/subjects/" + subject + "/versions"))
                    .header("Content-Type", "application/vnd.schemaregistry.v1+json")
                    .POST(HttpRequest.BodyPublishers.ofString(body)).build();
            String said = http.send(asked, HttpResponse.BodyHandlers.ofString()).body();
            Matcher id = ID.matcher(said);
            if (!id.find()) {
                throw new IllegalStateException(said);
            }
            found = Integer.parseInt(id.group(1));
            known.put(subject + text, found);
        }
        return found;
    }
}
