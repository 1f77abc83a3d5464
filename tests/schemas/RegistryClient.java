// Confluent's own registry client for Java, as Apache Flink ships it under another package: what it makes of a
// registry, as JSON on one line. Arguments: the address, a subject.

import java.util.Collections;
import java.util.List;

import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

public class RegistryClient {
    static final String BEGIN = "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"";

    static CachedSchemaRegistryClient client(String url) {
        return new CachedSchemaRegistryClient(
            new RestService(url), 100, List.of(new AvroSchemaProvider()), Collections.emptyMap(), Collections.emptyMap());
    }

    public static void main(String[] args) throws Exception {
        String url = args[0], subject = args[1];
        CachedSchemaRegistryClient client = client(url);
        AvroSchema one = new AvroSchema(BEGIN + "long\"}]}");
        AvroSchema worse = new AvroSchema(BEGIN + "string\"}]}");
        int id = client.register(subject, one);
        int again = client(url).register(subject, one);
        int known = client(url).getId(subject, one);
        String text = client(url).getSchemaById(id).canonicalString();
        SchemaMetadata latest = client.getLatestSchemaMetadata(subject);
        boolean fits = client.testCompatibility(subject, worse);
        int refused = 0;
        try {
            client.register(subject, worse);
        } catch (RestClientException error) {
            refused = error.getErrorCode();
        }
        int unknown = 0;
        try {
            client(url).getLatestSchemaMetadata(subject + "-nothing");
        } catch (RestClientException error) {
            unknown = error.getErrorCode();
        }
        client.updateCompatibility(subject, "NONE");
        client.register(subject, worse);
        List<Integer> versions = client(url).getAllVersions(subject);
        String level = client(url).getCompatibility(subject);

        client.register(subject + "-place", new AvroSchema(
            "{\"type\":\"record\",\"name\":\"Place\",\"fields\":[{\"name\":\"town\",\"type\":\"string\"}]}"));
        SchemaReference place = new SchemaReference("Place", subject + "-place", 1);
        AvroSchema uses = new AvroSchema(BEGIN + "long\"},{\"name\":\"to\",\"type\":\"Place\"}]}", List.of(place),
            Collections.singletonMap("Place",
                "{\"type\":\"record\",\"name\":\"Place\",\"fields\":[{\"name\":\"town\",\"type\":\"string\"}]}"), null);
        int referring = client.register(subject + "-uses", uses);
        int references = client(url).getSchemaById(referring).references().size();
        List<Integer> deleted = client(url).deleteSubject(subject);
        boolean gone = !client(url).getAllSubjects().contains(subject);
        System.out.println("{\"same\":" + (id == again && id == known) + ",\"text\":" + quoted(text)
            + ",\"version\":" + latest.getVersion() + ",\"fits\":" + fits + ",\"refused\":" + refused
            + ",\"unknown\":" + unknown + ",\"versions\":" + versions + ",\"level\":" + quoted(level)
            + ",\"references\":" + references + ",\"deleted\":" + deleted + ",\"gone\":" + gone + "}");
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
