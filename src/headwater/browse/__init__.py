"""The log for people: look at topics and groups, read, search, follow, publish, replay, reset.

    log         the clients of one cluster, kept ready; everything below is given one
    topics      what there is: partitions, offsets, bytes, settings
    records     one record, and a `Cursor`: a place in every partition, as text for a link
    places      "beginning", "end", "2:17", "2026-11-15T15:00", "-10m" as a cursor
    ranges      the records of a range; stuck: round a place that the client library cannot pass
    pages       a page of records from a place on, or back from it; all records of a key
    filters     which records are meant; searching: those of a range, within stated bounds; keyed: of a key
    tailing     records as they come
    decoding    bytes as JSON, Avro, text or hexadecimal; nothing is undecodable
    publishing  one record, or many
    replaying   a range of records into another topic, all of it or nothing
    groups      members, lag, reset
    state       one key at a moment: `views.folding` with a connection
    dead_letters  what was given up: look, mend, send back

Called by the console and by the commands of the command line, from any thread. Everything goes over Kafka's
protocol (confluent-kafka), to headwater's broker and to Apache Kafka alike. No question reads a partition
from its beginning unless that was what was asked: the broker's indexes find offsets and times.
"""
