"""From what JSON has to what Avro and Protobuf hold, field by field: exactly, or refused."""
