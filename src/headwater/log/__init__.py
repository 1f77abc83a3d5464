"""The partitioned log on disk, in Apache Kafka's own file layout."""
