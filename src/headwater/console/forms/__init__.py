"""Forms that change something: each shows first what would happen, and then does what was shown.

    trial     the end of every form
    settings  of topics and brokers
    topics    create, add partitions, delete
    groups    delete offsets, delete
    access    users, permissions, quotas
    parts     pause, resume, restart

Called by `pages`; what is done is in `administration`.
"""
