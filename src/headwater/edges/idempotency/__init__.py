"""Each request once: records under an Idempotency-Key are appended one time, however often they are sent.

`appender` is asked by the HTTP interface, hooks and bridges; `writer` writes in transactions, with the
`index` of keys that is kept in the `key_topic` beside the records.
"""
