"""Queues: share groups (KIP-932) on the same log, with dead-letter topics (KIP-1191).

`runs` and `state` are the pure state machine of one share-partition, `membership` that of one group;
`partition_owner` joins the first to the log, `coordinator` owns everything and is what handlers talk to.
"""
