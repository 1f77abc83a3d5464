"""The matrix: for each API a request, and what must be allowed for it. Asked of both servers alike.

`{topic}` and its like are put in for each server; `grants` is one set of permissions that suffices.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.streaming import subtopology

TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
CLUSTER_NAME = "kafka-cluster"


@dataclass(frozen=True)
class Names:
    """What a test uses on one server."""

    topic: str
    other: str
    """A second topic."""
    missing: str
    """A topic that is not there."""
    group: str
    transaction: str
    topic_id: uuid.UUID
    other_id: uuid.UUID


@dataclass(frozen=True)
class Case:
    api: str
    version: int
    request: Any
    """A function from `Names` to the request's fields."""
    grants: tuple[tuple[int, str, int], ...] = ()
    """(resource type, name of a field of `Names`, operation)."""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.api}-v{self.version}{'-' + self.note if self.note else ''}"


def _parts(**more: Any) -> list[dict[str, Any]]:
    return [{"partition_index": 0, **more}]


_T, _G, _X = "topic", "group", "transaction"
_C = "cluster"
_quota = {"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []}

CASES = [
    Case(
        "produce",
        9,
        lambda n: {
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [{"name": n.topic, "partition_data": [{"index": 0, "records": batch()}]}],
        },
        ((TOPIC, _T, WRITE),),
    ),
    Case(
        "produce",
        9,
        lambda n: {
            "transactional_id": n.transaction,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [
                {
                    "name": n.topic,
                    "partition_data": [
                        {"index": 0, "records": batch(producer=(9, 0, 0), attributes=TRANSACTIONAL)}
                    ],
                }
            ],
        },
        ((TOPIC, _T, WRITE), (TRANSACTION, _X, WRITE)),
        "transactional",
    ),
    Case(
        "produce",
        13,
        lambda n: {
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [
                {"topic_id": n.topic_id, "partition_data": [{"index": 0, "records": batch()}]}
            ],
        },
        ((TOPIC, _T, WRITE),),
    ),
    Case(
        "fetch",
        12,
        lambda n: {
            "replica_id": -1,
            "max_wait": 0,
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [
                {"topic": n.topic, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]},
                {"topic": n.other, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]},
            ],
        },
        ((TOPIC, _T, READ),),
    ),
    Case(
        "fetch",
        16,
        lambda n: {
            "max_wait": 0,
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [
                {
                    "topic_id": n.topic_id,
                    "partitions": [{"partition": 0, "partition_max_bytes": 1000}],
                }
            ],
        },
        ((TOPIC, _T, READ),),
    ),
    Case(
        "list_offsets",
        7,
        lambda n: {
            "replica_id": -1,
            "topics": [
                {"name": n.topic, "partitions": [{"partition_index": 0, "timestamp": -1}]},
                {"name": n.other, "partitions": [{"partition_index": 0, "timestamp": -1}]},
            ],
        },
        ((TOPIC, _T, DESCRIBE),),
    ),
    Case("metadata", 12, lambda n: {"topics": None}, ((TOPIC, _T, DESCRIBE),), "all"),
    Case("metadata", 1, lambda n: {"topics": None}, ((TOPIC, _T, READ),), "all"),
    Case("metadata", 0, lambda n: {"topics": [{"name": n.topic}]}, ((TOPIC, _T, READ),)),
    Case(
        "metadata",
        9,
        lambda n: {
            "topics": [{"name": n.topic}, {"name": n.other}, {"name": n.missing}],
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
        ((TOPIC, _T, ALTER), (TOPIC, "missing", DESCRIBE), (CLUSTER, _C, DESCRIBE)),
    ),
    Case(
        "metadata",
        12,
        lambda n: {"topics": [{"name": n.missing}], "allow_auto_topic_creation": True},
        ((TOPIC, "missing", DESCRIBE),),
        "create",
    ),
    Case(
        "metadata",
        12,
        lambda n: {
            "topics": [
                {"topic_id": n.topic_id, "name": None},
                {"topic_id": n.other_id, "name": None},
            ]
        },
        ((TOPIC, _T, DESCRIBE),),
        "id",
    ),
    Case(
        "offset_commit",
        8,
        lambda n: {
            "group_id": n.group,
            "generation_id_or_member_epoch": -1,
            "topics": [
                {"name": n.topic, "partitions": _parts(committed_offset=0)},
                {"name": n.other, "partitions": _parts(committed_offset=0)},
            ],
        },
        ((GROUP, _G, READ), (TOPIC, _T, READ)),
    ),
    Case(
        "offset_fetch",
        7,
        lambda n: {
            "group_id": n.group,
            "topics": [
                {"name": n.topic, "partition_indexes": [0]},
                {"name": n.other, "partition_indexes": [0]},
            ],
        },
        ((GROUP, _G, DESCRIBE), (TOPIC, _T, DESCRIBE)),
    ),
    Case(
        "offset_fetch",
        1,
        lambda n: {"group_id": n.group, "topics": [{"name": n.topic, "partition_indexes": [0]}]},
        ((GROUP, _G, DESCRIBE), (TOPIC, _T, DESCRIBE)),
    ),
    Case(
        "offset_fetch",
        9,
        lambda n: {
            "groups": [
                {
                    "group_id": n.group,
                    "member_epoch": -1,
                    "topics": [
                        {"name": n.topic, "partition_indexes": [0]},
                        {"name": n.other, "partition_indexes": [0]},
                    ],
                }
            ]
        },
        ((GROUP, _G, DESCRIBE), (TOPIC, _T, DESCRIBE)),
    ),
    Case(
        "offset_fetch",
        9,
        lambda n: {"groups": [{"group_id": n.group, "member_epoch": -1, "topics": None}]},
        ((GROUP, _G, DESCRIBE),),
        "all",
    ),
    Case("find_coordinator", 2, lambda n: {"key": n.group}, ((GROUP, _G, DESCRIBE),)),
    Case(
        "find_coordinator",
        2,
        lambda n: {"key": n.transaction, "key_type": 1},
        ((TRANSACTION, _X, DESCRIBE),),
        "transaction",
    ),
    Case(
        "find_coordinator", 4, lambda n: {"coordinator_keys": [n.group]}, ((GROUP, _G, DESCRIBE),)
    ),
    Case(
        "join_group",
        5,
        lambda n: {
            "group_id": n.group,
            "session_timeout": 10000,
            "rebalance_timeout": 10000,
            "member_id": "x",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "heartbeat",
        4,
        lambda n: {"group_id": n.group, "generation_id": 1, "member_id": "x"},
        ((GROUP, _G, READ),),
    ),
    Case(
        "leave_group",
        4,
        lambda n: {"group_id": n.group, "members": [{"member_id": "x"}]},
        ((GROUP, _G, READ),),
    ),
    Case(
        "sync_group",
        5,
        lambda n: {
            "group_id": n.group,
            "generation_id": 1,
            "member_id": "x",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "describe_groups",
        5,
        lambda n: {"groups": [n.group], "include_authorized_operations": True},
        ((GROUP, _G, DESCRIBE),),
    ),
    Case("list_groups", 4, lambda n: {}, ((GROUP, _G, DESCRIBE),)),
    Case(
        "create_topics",
        7,
        lambda n: {
            "topics": [{"name": n.missing, "num_partitions": 1, "replication_factor": 1}],
            "timeout": 9000,
            "validate_only": True,
        },
        ((TOPIC, "missing", CREATE),),
    ),
    Case(
        "create_topics",
        7,
        lambda n: {
            "topics": [{"name": n.missing, "num_partitions": 1, "replication_factor": 1}],
            "timeout": 9000,
            "validate_only": True,
        },
        ((CLUSTER, _C, CREATE),),
        "cluster",
    ),
    Case(
        "delete_topics",
        5,
        lambda n: {"topic_names": [n.missing], "timeout": 9000},
        ((TOPIC, "missing", DELETE),),
    ),
    Case(
        "delete_topics",
        6,
        lambda n: {
            "topics": [{"name": n.missing}, {"name": None, "topic_id": n.other_id}],
            "timeout": 9000,
        },
        ((TOPIC, "missing", DELETE),),
        "id",
    ),
    Case(
        "delete_topics",
        6,
        lambda n: {"topics": [{"name": None, "topic_id": n.other_id}], "timeout": 9000},
        ((TOPIC, "other", DESCRIBE),),
        "described-id",
    ),
    Case(
        "delete_records",
        2,
        lambda n: {
            "topics": [
                {"name": n.topic, "partitions": _parts(offset=0)},
                {"name": n.other, "partitions": _parts(offset=0)},
            ],
            "timeout": 9000,
        },
        ((TOPIC, _T, DELETE),),
    ),
    Case(
        "init_producer_id",
        4,
        lambda n: {
            "transactional_id": None,
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        ((CLUSTER, _C, IDEMPOTENT_WRITE),),
    ),
    Case(
        "init_producer_id",
        4,
        lambda n: {
            "transactional_id": None,
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        ((TOPIC, _T, WRITE),),
        "topic",
    ),
    Case(
        "init_producer_id",
        4,
        lambda n: {
            "transactional_id": n.transaction,
            "transaction_timeout": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        ((TRANSACTION, _X, WRITE),),
        "transactional",
    ),
    Case(
        "offset_for_leader_epoch",
        4,
        lambda n: {
            "replica_id": -1,
            "topics": [
                {
                    "topic": n.topic,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                },
                {
                    "topic": n.other,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                },
            ],
        },
        ((TOPIC, _T, DESCRIBE),),
    ),
    Case(
        "add_partitions_to_txn",
        3,
        lambda n: {
            "v3_and_below_transactional_id": n.transaction,
            "v3_and_below_producer_id": 9,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [
                {"name": n.topic, "partitions": [0]},
                {"name": n.other, "partitions": [0]},
            ],
        },
        ((TRANSACTION, _X, WRITE), (TOPIC, _T, WRITE)),
    ),
    Case(
        "add_partitions_to_txn",
        5,
        lambda n: {
            "transactions": [
                {
                    "transactional_id": n.transaction,
                    "producer_id": 9,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": n.topic, "partitions": [0]}],
                }
            ]
        },
        (),
    ),
    Case(
        "add_offsets_to_txn",
        3,
        lambda n: {
            "transactional_id": n.transaction,
            "producer_id": 9,
            "producer_epoch": 0,
            "group_id": n.group,
        },
        ((TRANSACTION, _X, WRITE), (GROUP, _G, READ)),
    ),
    Case(
        "end_txn",
        3,
        lambda n: {
            "transactional_id": n.transaction,
            "producer_id": 9,
            "producer_epoch": 0,
            "committed": False,
        },
        ((TRANSACTION, _X, WRITE),),
    ),
    Case(
        "write_txn_markers",
        1,
        lambda n: {
            "markers": [
                {
                    "producer_id": 9,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": n.topic, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
    ),
    Case(
        "txn_offset_commit",
        3,
        lambda n: {
            "transactional_id": n.transaction,
            "group_id": n.group,
            "producer_id": 9,
            "producer_epoch": 0,
            "generation_id": -1,
            "topics": [{"name": n.other, "partitions": _parts(committed_offset=0)}],
        },
        ((TRANSACTION, _X, WRITE), (GROUP, _G, READ)),
    ),
    Case(
        "describe_acls",
        3,
        lambda n: {
            "resource_type_filter": 1,
            "pattern_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
        },
    ),
    Case(
        "create_acls",
        3,
        lambda n: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "x",
                    "principal": "User:x",
                    "resource_pattern_type": 3,
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Case(
        "delete_acls",
        3,
        lambda n: {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "pattern_type_filter": 3,
                    "resource_name_filter": "nobody",
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
        ((CLUSTER, _C, ALTER),),
    ),
    Case(
        "describe_configs",
        4,
        lambda n: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n.topic,
                    "configuration_keys": ["retention.ms"],
                },
                {
                    "resource_type": 2,
                    "resource_name": n.other,
                    "configuration_keys": ["retention.ms"],
                },
                {"resource_type": 4, "resource_name": "1", "configuration_keys": ["node.id"]},
            ]
        },
        ((TOPIC, _T, DESCRIBE_CONFIGS),),
    ),
    Case(
        "describe_configs",
        4,
        lambda n: {
            "resources": [
                {"resource_type": 4, "resource_name": "1", "configuration_keys": ["node.id"]}
            ]
        },
        ((CLUSTER, _C, DESCRIBE_CONFIGS),),
        "broker",
    ),
    Case(
        "incremental_alter_configs",
        1,
        lambda n: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n.topic,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}],
                },
                {
                    "resource_type": 4,
                    "resource_name": "1",
                    "configs": [
                        {"name": "max.connections", "config_operation": 0, "value": "1000"}
                    ],
                },
            ],
            "validate_only": True,
        },
        ((TOPIC, _T, ALTER_CONFIGS),),
    ),
    Case(
        "alter_configs",
        2,
        lambda n: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n.topic,
                    "configs": [{"name": "retention.ms", "value": "1000"}],
                }
            ],
            "validate_only": True,
        },
        ((TOPIC, _T, ALTER_CONFIGS),),
    ),
    Case("describe_log_dirs", 4, lambda n: {"topics": []}, ((CLUSTER, _C, DESCRIBE),), "empty"),
    Case(
        "create_partitions",
        3,
        lambda n: {
            "topics": [
                {"name": n.topic, "count": 2, "assignments": None},
                {"name": n.other, "count": 2, "assignments": None},
            ],
            "timeout": 9000,
            "validate_only": True,
        },
        ((TOPIC, _T, ALTER),),
    ),
    Case("delete_groups", 2, lambda n: {"groups_names": [n.group]}, ((GROUP, _G, DELETE),)),
    Case(
        "offset_delete",
        0,
        lambda n: {
            "group_id": n.group,
            "topics": [{"name": n.topic, "partitions": [{"partition_index": 0}]}],
        },
    ),
    Case(
        "elect_leaders",
        2,
        lambda n: {
            "election_type": 0,
            "timeout": 9000,
            "topic_partitions": [{"topic": n.topic, "partitions": [0]}],
        },
        ((CLUSTER, _C, ALTER),),
    ),
    Case(
        "alter_partition_reassignments",
        0,
        lambda n: {
            "timeout": 9000,
            "topics": [{"name": n.topic, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
    ),
    Case(
        "list_partition_reassignments",
        0,
        lambda n: {"timeout": 9000, "topics": None},
        ((CLUSTER, _C, DESCRIBE),),
    ),
    Case(
        "alter_replica_log_dirs",
        2,
        lambda n: {
            "dirs": [{"path": "/nowhere", "topics": [{"name": n.topic, "partitions": [0]}]}]
        },
    ),
    Case(
        "describe_client_quotas",
        1,
        lambda n: {"components": [], "strict": False},
        ((CLUSTER, _C, DESCRIBE_CONFIGS),),
    ),
    Case("alter_client_quotas", 1, lambda n: {"entries": [_quota], "validate_only": True}),
    Case(
        "describe_user_scram_credentials",
        0,
        lambda n: {"users": [{"name": "nobody"}]},
        ((CLUSTER, _C, DESCRIBE),),
    ),
    Case(
        "alter_user_scram_credentials",
        0,
        lambda n: {"deletions": [{"name": "nobody", "mechanism": 1}]},
        ((CLUSTER, _C, ALTER),),
    ),
    Case(
        "describe_quorum",
        2,
        lambda n: {
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        },
    ),
    Case(
        "update_features",
        1,
        lambda n: {"timeout": 9000, "feature_updates": [], "validate_only": True},
    ),
    Case("unregister_broker", 0, lambda n: {"broker_id": 77}),
    Case(
        "describe_cluster",
        1,
        lambda n: {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        ((CLUSTER, _C, DESCRIBE),),
    ),
    Case(
        "describe_producers",
        0,
        lambda n: {
            "topics": [
                {"name": n.topic, "partition_indexes": [0]},
                {"name": n.other, "partition_indexes": [0]},
            ]
        },
        ((TOPIC, _T, READ),),
    ),
    Case(
        "describe_transactions",
        0,
        lambda n: {"transactional_ids": [n.transaction]},
        ((TRANSACTION, _X, DESCRIBE),),
    ),
    Case("list_transactions", 0, lambda n: {}),
    Case(
        "consumer_group_heartbeat",
        0,
        lambda n: {
            "group_id": n.group,
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": 9000,
            "subscribed_topic_names": [n.other],
            "topic_partitions": [],
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "consumer_group_describe",
        0,
        lambda n: {"group_ids": [n.group], "include_authorized_operations": True},
        ((GROUP, _G, DESCRIBE),),
    ),
    Case(
        "streams_group_heartbeat",
        0,
        lambda n: {
            "group_id": n.group,
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": 9000,
            "topology": {
                "epoch": 0,
                "subtopologies": [subtopology("0", sources=[n.other])],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "task_offsets": None,
            "task_end_offsets": None,
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "streams_group_describe",
        0,
        lambda n: {"group_ids": [n.group], "include_authorized_operations": True},
        ((GROUP, _G, DESCRIBE),),
    ),
    Case(
        "list_config_resources",
        1,
        lambda n: {"resource_types": [16]},
        ((CLUSTER, _C, DESCRIBE_CONFIGS),),
    ),
    Case(
        "describe_topic_partitions",
        0,
        lambda n: {
            "topics": [{"name": n.topic}, {"name": n.other}, {"name": n.missing}],
            "response_partition_limit": 10,
        },
        ((TOPIC, _T, READ), (TOPIC, "missing", DESCRIBE)),
    ),
    Case(
        "share_group_heartbeat",
        1,
        lambda n: {
            "group_id": n.group,
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "member_epoch": 0,
            "subscribed_topic_names": [n.other],
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "share_group_describe",
        1,
        lambda n: {"group_ids": [n.group], "include_authorized_operations": True},
        ((GROUP, _G, DESCRIBE),),
    ),
    Case(
        "share_fetch",
        1,
        lambda n: {
            "group_id": n.group,
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "share_session_epoch": 0,
            "max_wait": 0,
            "max_bytes": 1000,
            "max_records": 10,
            "batch_size": 10,
            "topics": [{"topic_id": n.topic_id, "partitions": [{"partition_index": 0}]}],
        },
    ),
    Case(
        "share_acknowledge",
        1,
        lambda n: {
            "group_id": n.group,
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "share_session_epoch": 1,
            "topics": [{"topic_id": n.topic_id, "partitions": [{"partition_index": 0}]}],
        },
    ),
    Case(
        "describe_share_group_offsets",
        0,
        lambda n: {
            "groups": [
                {"group_id": n.group, "topics": [{"topic_name": n.topic, "partitions": [0]}]}
            ]
        },
    ),
    Case(
        "alter_share_group_offsets",
        0,
        lambda n: {
            "group_id": n.group,
            "topics": [
                {"topic_name": n.topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}
            ],
        },
        ((GROUP, _G, READ),),
    ),
    Case(
        "delete_share_group_offsets",
        0,
        lambda n: {"group_id": n.group, "topics": [{"topic_name": n.topic}]},
        ((GROUP, _G, DELETE),),
    ),
    Case("describe_delegation_token", 3, lambda n: {"owners": None}),
]
