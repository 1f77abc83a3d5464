"""The log for people: look into topics, search, replay, one key through time, dead letters, health.

    pages         a page of records from a place on, or back from it; all records of a key
    filters       which records are meant; search: those of a range, within bounds; key_reader: of a key
    decoder       bytes as JSON, Avro, text or hexadecimal; nothing is undecodable
    replay        a range of records into another topic, all of it or nothing
    state         one key at a moment: `views.folding` with a connection
    dead_letters  what was given up: look, mend, send back
    health        how the broker is, as it says itself

Called by the console, the edges and the command line, from any thread, with a `client.log.Log`. No question
reads a partition from its beginning unless that was what was asked: the broker's indexes find offsets and
times.
"""
