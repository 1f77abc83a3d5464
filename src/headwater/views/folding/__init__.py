"""State is the integral of the stream: one key's changes in a topic, folded up to a moment.

    changes  what a record says about its row: Debezium's envelope, a plain row, a tombstone
    state    the fold, and the whole question: `state_of(cluster, topic, key, as_of)`

`client.partitioner` says in which partitions a key may be, `client.key_search` finds its records there.

Called by `headwater state`. Reads over Kafka's protocol; needs neither Spark nor a client library.
"""
