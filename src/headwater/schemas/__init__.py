"""Schemas: a registry with Confluent's interface, whose state is a compacted topic.

    avro/ protobuf/ json_schema/   one type each: parse, canonical form, rules of compatibility; pure
    kinds     the three by their names              levels    BACKWARD, FULL_TRANSITIVE and the others
    records   `_schemas`, byte for byte             state     what these records amount to
    parser    what is asked of a text               sandbox   asked in a process of its own, with bounds
    changes   what a request would write            store     state, follower and writer as one
    follower  the topic into the state              writer    one writer at a time, by fencing
    client    the same by HTTP, for headwater's own programs

Its HTTP interface is `edges/registry`, as the servers' shared parts lie further out.
"""
