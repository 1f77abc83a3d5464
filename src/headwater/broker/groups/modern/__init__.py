"""What groups of the newer protocols have in common: epochs, a target that the broker makes, owners.

Consumer groups (KIP-848) hold partitions of topics, streams groups (KIP-1071) tasks of subtopologies; in
both a heartbeat raises the group's epoch where something changed, the broker makes a target of that epoch,
and members let go before others take. Kafka calls these groups modern, too.
"""
