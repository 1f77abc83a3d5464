"""Who may connect and do what: the same questions to headwater and to Apache Kafka."""
