"""Whatever writes to the catalogue answers where the disk refuses that, and its client stays connected."""

from __future__ import annotations

import errno
from typing import Any

import pytest

import headwater.testing
from tests.compat.wire import ErrorCode, connected

SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS", "audit.enable": False}
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ALL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ANN = {
    "name": "ann",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"ab",
    "salted_password": b"x" * 32,
}
TOPIC = {"name": "z", "num_partitions": 1, "replication_factor": 1, "configs": []}
LOWER = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "q"}],
    "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
}
CONFIGS = {
    "resource_type": 32,
    "resource_name": "group",
    "configs": [{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}],
}
ASKED: dict[str, tuple[int, dict[str, Any]]] = {
    "create_topics": (7, {"timeout": 9000, "topics": [TOPIC]}),
    "create_acls": (3, {"creations": [ACL | {"resource_name": "new"}]}),
    "delete_acls": (3, {"filters": [ALL]}),
    "alter_user_scram_credentials": (0, {"deletions": [], "upsertions": [ANN]}),
    "update_features": (
        1,
        {"timeout": 9000, "feature_updates": [LOWER], "validate_only": False},
    ),
    "alter_client_quotas": (1, {"validate_only": False, "entries": [QUOTA]}),
    "incremental_alter_configs": (1, {"resources": [CONFIGS], "validate_only": False}),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_change_that_the_disk_refuses_is_a_storage_error(name: str) -> None:
    version, values = ASKED[name]
    with (
        headwater.testing.broker(settings=SETTINGS) as broker,
        connected(broker.bootstrap) as wire,
    ):
        wire.ask("create_acls", 3, creations=[ACL])
        fault = broker.faults.disk.fail("write", errno.ENOSPC, topic="__headwater_catalogue")
        answer = wire.ask(name, version, **values)
        fault.end()
        assert ErrorCode.kafka_storage_error in codes(answer)
        left = wire.ask("describe_acls", 3, **ALL)
        assert [each.resource_name for each in left.resources] == ["t"]


def codes(answer: Any) -> set[ErrorCode]:
    """Every error code in it, however deep."""
    found = {answer.error_code} if hasattr(answer, "error_code") else set()
    for field in getattr(answer, "__dataclass_fields__", ()):
        value = getattr(answer, field)
        for each in value if isinstance(value, tuple) else ():
            found |= codes(each)
    return found
