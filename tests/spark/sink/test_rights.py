"""A user with exactly the rights that the documentation names can write; one without is told so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headwater import testing
from headwater.client import cluster
from headwater.client.errors import ClientError
from tests.compat.cluster import Cluster
from tests.spark.sink.acting import Run
from tests.spark.sink.sessions import committed

PASSWORD = "correct horse"
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
RIGHTS = [
    (ResourceType.TOPIC, "rows", LITERAL, AclOperation.WRITE),
    (ResourceType.TOPIC, "_headwater_sink", LITERAL, AclOperation.CREATE),
    (ResourceType.TOPIC, "_headwater_sink", LITERAL, AclOperation.WRITE),
    (ResourceType.TOPIC, "_headwater_sink", LITERAL, AclOperation.READ),
    (ResourceType.GROUP, "headwater-sink-", PREFIXED, AclOperation.READ),
    (ResourceType.TRANSACTIONAL_ID, "headwater-", PREFIXED, AclOperation.WRITE),
]


@pytest.fixture
def doors() -> Iterator[tuple[str, str]]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS",
    }
    with testing.broker(settings=settings, listen=None) as broker:
        inside, outside = (each.bootstrap for each in broker.socket_server.listeners)
        admin = AdminClient({"bootstrap.servers": inside})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("ann", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])["ann"].result()
        yield inside, outside
        for each in cluster._shared.values():
            each.close()


def give(inside: str, rights: list[tuple[object, str, object, object]]) -> None:
    admin = AdminClient({"bootstrap.servers": inside})
    bindings = [
        AclBinding(kind, name, pattern, "User:ann", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in rights
    ]
    for each in admin.create_acls(bindings).values():
        each.result()


def run(outside: str) -> Run:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "ann",
        "kafka.sasl.password": PASSWORD,
        "kafka.default.api.timeout.ms": "3000",
    }
    return Run(outside, "rows", "query", options=login)


def test_the_documented_rights_are_enough(doors: tuple[str, str]) -> None:
    inside, outside = doors
    Cluster("headwater", inside).create_topic("rows")
    give(inside, RIGHTS)
    for batch in range(2):
        run(outside).do(batch, ["a"], ["b"])
    assert len(committed(inside, "rows")[0]) == 4


@pytest.mark.parametrize("missing", range(len(RIGHTS)))
def test_whoever_lacks_a_right_is_told_so(missing: int, doors: tuple[str, str]) -> None:
    inside, outside = doors
    Cluster("headwater", inside).create_topic("rows")
    give(inside, [right for number, right in enumerate(RIGHTS) if number != missing])
    with pytest.raises(ClientError, match=r"authorization_failed|does not exist"):
        run(outside).do(0, ["a"], ["b"])
    assert committed(inside, "rows")[0] == []
