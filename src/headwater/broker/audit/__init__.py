"""Who changed what: every request that changes more than records, written down by the broker itself.

`changes` makes sentences of requests and their answers; `trail` writes them to `__headwater_changes`.
"""
