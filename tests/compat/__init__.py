"""Other people's clients and tools, the same assertions against headwater and Apache Kafka."""
