import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Debezium's embedded engine, sending to a broker; a batch is done when all of it is acknowledged. */
public final class Engine {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(words[0])) {
            settings.load(file);
        }
        Properties sending = new Properties();
        sending.put("bootstrap.servers", words[1]);
        sending.put("acks", "all");
        sending.put("enable.idempotence", "true");
        sending.put("linger.ms", "2");
        sending.put("batch.size", "1048576");
        sending.put("compression.type", "lz4");
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer());
        DebeziumEngine<ChangeEvent<String, String>> engine =
                DebeziumEngine.create(Json.class)
                        .using(settings)
                        .using((success, message, error) -> {
                            if (!success) {
                                System.err.println("engine: " + message);
                                System.exit(1);
                            }
                        })
                        .notifying(new DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>>() {
                            @Override
                            public void handleBatch(
                                    List<ChangeEvent<String, String>> records,
                                    DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
                                    throws InterruptedException {
                                for (ChangeEvent<String, String> record : records) {
                                    producer.send(new ProducerRecord<>(
                                            record.destination(), record.key(), record.value()));
                                }
                                producer.flush();
                                for (ChangeEvent<String, String> record : records) {
                                    committer.markProcessed(record);
                                }
                                committer.markBatchFinished();
                            }
                        })
                        .build();
        // Stopped in order, it remembers how far it was.
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
}
