"""Devices that only know UDP: StatsD lines and raw datagrams, to a topic.

    statsd     lines to records; pure
    addresses  udp://127.0.0.1:8125, and who may send; pure
    sockets    what the kernel is asked for, and what it says it dropped
    receiver   a thread that empties the socket in batches, into an inbox with a bound
    bridge     the batches into the log; plugs into `edges.bridges`

UDP loses, and nobody is told: what the kernel dropped, and what we dropped, is counted and shown.
"""
