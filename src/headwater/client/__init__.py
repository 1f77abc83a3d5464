"""The only way to the log for everyone outside the broker, headwater's own or Apache Kafka.

Two clients, each in one place. `log` is confluent-kafka, as a person's program would use it; `cluster` speaks
the protocol itself, where batches are handled whole or librdkafka has no words.

    log          the clients of one cluster, kept ready; `log.cluster()` opens the other one
    librdkafka   confluent-kafka's own classes, for members of groups and writers of transactions
    topics       what there is; creation: topics that must be there; settings, acls, users: what is set
    groups       who reads them, share_groups too; offsets: where partitions end; backlog: what is unread
    records      one record; places, ranges, tail: which are read; publisher: what is written
    exchange     one question in Kafka's own messages; group_offsets, quotas, setting_details: by it
    cluster      metadata, offsets, leaders, retries; connection: one socket; security: TLS and SASL
    leader       the way to one partition; batches: those of a range, whole, with aborted ones named
    transaction  begin, add, end, from any process; verdict, outcome: what became of one
    fetch        pieces of a range, read ahead; decode: their records as Arrow columns, in compiled code
    dead_letters what could not be used, in one form; dead_letter_writer: each once, whoever tries again
    key_search   the records of one key; partitioner: where producers put a key
    position     how far something is in the log
    options      settings by Kafka's and by librdkafka's names; constants; errors: one family
"""
