"""Streams groups (KIP-1071): the broker knows a Kafka Streams application's topology and assigns its tasks.

The first member brings the topology; the broker finds out how many partitions its internal topics need
and so which tasks there are, gives each task to one member (and to others as a standby), and leads each
member there as in `consumer`: a task is given to a new process only when the old one has let go.

    topology    what a member sent: subtopologies and their topics
    partitions  the topology beside the topics that there are: how many tasks, which topics are missing
    assignor    who gets which task
    reconcile   one member one step closer to its target
    endpoints   where interactive queries find each partition
    steps       what one heartbeat, or the time, does to the group
    heartbeat   StreamsGroupHeartbeat: join, stay, leave
    service     what the handlers call; everything else is pure
"""
