"""MariaDB as a stream of changes: the binary log read as a replica reads it, decoded here.

`source` puts the parts together; `connection` and `replication` talk to the server; `events`,
`table_map`, `rows` and what they use are pure: bytes in, values out.
"""
