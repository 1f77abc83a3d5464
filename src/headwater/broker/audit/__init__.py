"""Who changed what: every request that changes more than records, written down by the broker itself.

`changes` hears requests and their answers, `description` says what each part was, `limits` how much of it is
repeated, and `trail` writes the lines to `__headwater_changes`.
"""
