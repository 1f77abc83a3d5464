import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words in the streams group protocol (KIP-1071): address, application, topic of lines, topic of
 * counts, folder for state, host:port for queries, guarantee. Says each state, and where the store's
 * partitions are.
 */
public class CountWords {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, args[5]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[6]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("STATE " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        String last = "";
        while (true) {
            Thread.sleep(200);
            String hosts = streams.metadataForAllStreamsClients().stream()
                .map(each -> each.port() + "=" + each.topicPartitions().size())
                .sorted().collect(Collectors.joining(" "));
            if (!hosts.equals(last)) {
                System.out.println("HOSTS " + hosts);
            }
            last = hosts;
        }
    }
}
