"""The rules themselves: none is missing, and what has none is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from pathlib import Path

import pytest

from headwater.broker import wire as wire_module
from headwater.broker.registry import Api, load_apis
from headwater.broker.security.rules import RULES, guarded
from headwater.testing import broker
from tests.compat.batches import batch
from tests.compat.wire import API_KEYS, ConnectionClosed, Wire, connected
from tests.security.matrix import CASES, Names

OPEN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
NOT_COMPARED = {
    "GetTelemetrySubscriptions": "everybody may, as in Kafka",
    "PushTelemetry": "everybody may, as in Kafka",
    "CreateDelegationToken": "nobody has tokens; kio cannot read the refusal's negative times",
    "RenewDelegationToken": "the same",
    "ExpireDelegationToken": "the same",
}
ACL = {"authorizer.class.name": "acl"}


def test_every_api_has_a_rule():
    assert [api.name for key, api in load_apis().items() if key not in RULES] == []


def test_every_api_is_in_the_matrix():
    compared = {API_KEYS[case.api] for case in CASES}
    missing = [api.name for key, api in load_apis().items() if key not in compared]
    assert set(missing) - OPEN - NOT_COMPARED.keys() == set()


def test_an_api_without_a_rule_is_refused_to_everybody(tmp_path: Path):
    with broker(tmp_path, {**ACL, "super.users": "User:ANONYMOUS"}) as server:
        unheard = Api(77_77, "Unheard", (0, 9), server.apis[3].handle)
        assert server.authorizer is not None
        hidden = guarded({77_77: unheard}, server.authorizer)[77_77]
        server.apis[3] = dataclasses.replace(hidden, key=3)
        with connected(server.bootstrap) as wire:
            wire.send("metadata", 9, topics=[])
            with pytest.raises(ConnectionClosed):
                wire.receive()


def acl(name: str, operation: int, permission: int = 3, **fields: object) -> dict[str, object]:
    return {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
        **fields,
    }


CLUSTER = {"resource_type": 4}


def codes(wire: Wire, *names: str) -> list[int]:
    topics = [{"name": name} for name in names]
    answer = wire.ask("metadata", 9, topics=topics, allow_auto_topic_creation=False)
    found = {topic.name: int(topic.error_code) for topic in answer.topics}
    return [found[name] for name in names]


def test_every_refusal_fits_its_message_in_every_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(wire_module, "STRICT", True)
    names = Names(*("topic", "other", "missing", "g", "x"), uuid.uuid4(), uuid.uuid4())
    answered = set()
    with broker(tmp_path, ACL) as server:
        for case in CASES:
            with connected(server.bootstrap) as wire:
                versions = wire.common(case.api)
            for version in versions:
                impossible = contextlib.suppress(ConnectionClosed, TypeError, AttributeError)
                with connected(server.bootstrap) as wire, impossible:
                    wire.send(case.api, version, lenient=True, **case.request(names))
                    wire.receive_bytes()
                    answered.add(case.api)
    # Some cases are no request in some version; what we answer must always be an answer.
    assert "an error of ours" not in caplog.text
    assert {case.api for case in CASES} == answered


def test_without_an_authorizer_the_acl_apis_say_so(tmp_path: Path):
    with broker(tmp_path) as server, connected(server.bootstrap) as wire:
        assert wire.ask("create_acls", 3, creations=[acl("x", 3)]).results[0].error_code == 54
        asked = {"resource_type_filter": 1, "pattern_type_filter": 1}
        assert (
            wire.ask("describe_acls", 3, operation=1, permission_type=1, **asked).error_code == 54
        )


def test_acls_hold_over_a_restart_and_a_denial_wins(tmp_path: Path):
    settings = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, settings) as server, connected(server.bootstrap) as wire:
        made = [
            acl("a", 3, resource_pattern_type=4),
            acl("ab", 2, 2),
            acl("b", 8, host="10.0.0.1"),
            acl("c", 12),
        ]
        rows = wire.ask("create_acls", 3, creations=made).results
        assert [row.error_code for row in rows] == [0, 0, 0, 0]
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        assert codes(wire, "a", "ac", "ab", "b", "c") == [3, 3, 29, 29, 29]
    everyone = {**ACL, "allow.everyone.if.no.acl.found": "true"}
    with broker(tmp_path, everyone) as server, connected(server.bootstrap) as wire:
        assert codes(wire, "a", "ab", "b", "c", "zzz") == [3, 29, 29, 29, 3]


def test_who_may_no_longer_read_loses_the_fetch_session(tmp_path: Path):
    settings = {**ACL, "super.users": "User:root", "auto.create.topics.enable": "true"}
    grants = [acl("t", 2), acl("kafka-cluster", 2, **CLUSTER)]
    free = {**settings, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=grants)
        wire.ask("metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=True)
    with broker(tmp_path, settings) as server, connected(server.bootstrap) as wire:
        part = {"partition": 0, "partition_max_bytes": 1000}
        topics = [{"topic": "t", "partitions": [part]}]
        asked = {"replica_id": -1, "max_wait": 0, "max_bytes": 1000}
        answer = wire.ask("fetch", 12, session_epoch=0, topics=topics, **asked)
        session = answer.session_id
        assert session and answer.responses[0].partitions[0].error_code == 0
        again = {"session_id": session, "topics": [], **asked}
        assert wire.ask("fetch", 12, session_epoch=1, **again).error_code == 0
        wire.ask("create_acls", 3, creations=[acl("t", 3, 2)])
        assert wire.ask("fetch", 12, session_epoch=2, **again).error_code == 70
        answer = wire.ask("fetch", 12, session_epoch=0, topics=topics, **asked)
        assert answer.session_id == 0
        assert answer.responses[0].partitions[0].error_code == 29


def test_writing_to_all_topics_is_no_leave_to_steer_the_broker(tmp_path: Path):
    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=[acl("*", 2)])
        wire.ask("metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=True)
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        topics = [
            {"name": name, "partition_data": [{"index": 0, "records": batch()}]}
            for name in ("__headwater_excisions", "t")
        ]
        answer = wire.ask("produce", 9, acks=-1, timeout=1000, topic_data=topics)
        found = {row.name: int(row.partition_responses[0].error_code) for row in answer.responses}
        assert found == {"__headwater_excisions": 29, "t": 0}


def test_an_expression_that_matches_hidden_topics_is_refused(tmp_path: Path):
    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        group = acl("g", 3, resource_type=3)
        wire.ask("create_acls", 3, creations=[acl("seen", 8), group])
        for name in ("seen", "hidden"):
            wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        member = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 9000}
        for expression, code in ((".*", 29), ("s.*", 0)):
            answer = wire.ask(
                "consumer_group_heartbeat",
                1,
                subscribed_topic_regex=expression,
                topic_partitions=[],
                **member,
            )
            assert answer.error_code == code, answer


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"resource_type": 1}, "Invalid resourceType"),
        ({"resource_pattern_type": 2}, "Invalid patternType"),
        ({"operation": 1}, "Invalid operation"),
        ({"permission_type": 1}, "Invalid permissionType"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "ann"}, "Could not parse principal from `ann`"),
    ],
)
def test_an_acl_that_says_nothing_is_refused(tmp_path: Path, wrong, sentence):
    settings = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, settings) as server, connected(server.bootstrap) as wire:
        row = wire.ask("create_acls", 3, creations=[{**acl("x", 3), **wrong}]).results[0]
        assert row.error_code == 42
        assert row.error_message.startswith(sentence)
