"""State is the integral of the stream: one key's changes in a topic, folded up to a moment.

    partitioner  how a key may be written, and which partition Kafka's partitioners put it in
    key_search   the records of a key in a partition, found without decoding the others
    changes      what a record says about its row: Debezium's envelope, a plain row, a tombstone
    state        the fold, and the whole question: `state_of(cluster, topic, key, as_of)`

Called by `headwater state`. Reads over Kafka's protocol; needs neither Spark nor a client library.
"""
