"""The rules themselves: none is missing, and what has none is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import uuid
from pathlib import Path

import pytest

from headwater.broker import authorship
from headwater.broker.authorship import HOST, PRINCIPAL
from headwater.broker.registry import Api, load_apis
from headwater.broker.security.rules import RULES, guarded
from headwater.broker.security.rules.permission import REFUSALS_LOGGED_MAX
from headwater.record import batch as batches
from headwater.record import records
from headwater.testing import broker
from headwater.wire import writer as wire_module
from tests.compat.asking import end_offset, produce, read_all
from tests.compat.batches import batch
from tests.compat.waiting import until
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
        answer = wire.ask("produce", 9, acks=-1, timeout=30_000, topic_data=topics)
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


def test_a_group_that_is_named_twice_shows_no_more_than_once(tmp_path: Path):
    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=[acl("seen", 8), acl("g", 8, resource_type=3)])
        parts = [{"partition_index": 0, "committed_offset": 7}]
        for name in ("seen", "hidden"):
            wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
            topics = [{"name": name, "partitions": parts}]
            who = {"group_id": "g", "generation_id_or_member_epoch": -1}
            wire.ask("offset_commit", 8, topics=topics, **who)
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        everything, nothing = ({"group_id": "g", "topics": topics} for topics in (None, []))
        for groups in ([everything], [everything, nothing]):
            (group,) = wire.ask("offset_fetch", 9, groups=groups).groups
            assert [topic.name for topic in group.topics] == ["seen"]


def test_a_request_that_is_refused_a_thousand_times_takes_few_lines_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "headwater.security")
    names = [f"t{number}" for number in range(1000)]
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        answer = wire.ask("delete_topics", 5, topic_names=names, timeout=30_000)
        assert {int(row.error_code) for row in answer.responses} == {29}
    lines = [line for line in caplog.messages if line.startswith("denied: ")]
    assert len(lines) == REFUSALS_LOGGED_MAX + 1
    assert lines[-1].endswith("more in the same request")


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


def test_rights_to_every_topic_do_not_reach_who_changed_what(tmp_path: Path):
    changes = "__headwater_changes"
    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        cluster = acl("kafka-cluster", 5, **CLUSTER)  # to create is not to alter
        wire.ask("create_acls", 3, creations=[acl("*", 2), cluster])
        for name in (changes, "t"):
            wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
    everybody = {**ACL, "allow.everyone.if.no.acl.found": True}
    with broker(tmp_path, everybody) as server, connected(server.bootstrap) as wire:
        assert codes(wire, "t", changes) == [0, 29]
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        assert codes(wire, changes) == [0], "super users"
        wire.ask("create_acls", 3, creations=[acl(changes, 3), acl(changes, 6)])
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        assert codes(wire, changes) == [0]
        asked = wire.ask("delete_topics", 6, topics=[{"name": changes}], timeout=30_000)
        assert asked.responses[0].error_code == 29, (
            "it takes the right to alter the cluster as well"
        )


def test_rights_to_every_topic_do_not_reach_the_keys_of_personal_data(tmp_path: Path):
    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=[acl("*", 2), acl("_", 2, resource_pattern_type=4)])
        for name in ("__headwater_keys", "t"):
            wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
    everybody = {**ACL, "allow.everyone.if.no.acl.found": True}
    with broker(tmp_path, everybody) as server, connected(server.bootstrap) as wire:
        assert codes(wire, "t", "__headwater_keys") == [0, 29]
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=[acl("__headwater_keys", 3)])
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        assert codes(wire, "t", "__headwater_keys") == [0, 0]
        write = {"name": "__headwater_keys", "partition_data": [{"index": 0, "records": batch()}]}
        answer = wire.ask("produce", 9, acks=-1, timeout=30_000, topic_data=[write])
        assert answer.responses[0].partition_responses[0].error_code == 29  # it may only read


def test_an_excision_is_told_as_the_principals_who_asked_and_needs_the_right_to_delete(
    tmp_path: Path,
):
    request = {"id": "forged", "topic": "t", "target": {"first_offset": 0, "last_offset": 0}}
    value = json.dumps({**request, "who": "User:boss"}).encode()
    forged = ((PRINCIPAL, b"User:boss"), (HOST, b"10.0.0.1"), ("other", b"stays"))

    def request_of(value: bytes, headers: records.Headers = ()) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        return records.build([records.Record(0, now_ms, b"k", value, headers)], codec=4)

    free = {**ACL, "super.users": "User:ANONYMOUS"}
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        allowed = [acl("*", 4), acl("kafka-cluster", 7, **CLUSTER), acl("*", 3)]
        wire.ask("create_acls", 3, creations=allowed)
        for name in ("__headwater_excisions", "__headwater_audit", "t"):
            wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
        produce(wire, "t", batch())
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        data = request_of(value, forged)
        assert produce(wire, "__headwater_excisions", data).error_code == 0
        assert produce(wire, "__headwater_audit", data).error_code == 17  # the broker's alone
        until(lambda: end_offset(wire, "__headwater_audit") == 1, "the refusal")
        ((_, told),) = read_all(wire, "__headwater_audit")[0].pairs
        line = json.loads(told or b"")
        assert (line["who"], line["host"]) == ("User:ANONYMOUS", "127.0.0.1")
        assert (line["claimed"], line["status"]) == ("User:boss", "refused")
        assert "User:ANONYMOUS may not delete records of t" in line["error"]
        assert end_offset(wire, "t") == len(read_all(wire, "t")) == 1
    with broker(tmp_path, free) as server, connected(server.bootstrap) as wire:
        wire.ask("create_acls", 3, creations=[acl("t", 6)])
    with broker(tmp_path, ACL) as server, connected(server.bootstrap) as wire:
        data = request_of(value.replace(b"forged", b"right"))
        assert produce(wire, "__headwater_excisions", data).error_code == 0
        until(lambda: end_offset(wire, "__headwater_audit") == 2, "the excision")
        ((_, told),) = read_all(wire, "__headwater_audit")[-1].pairs
        assert json.loads(told or b"")["status"] == "done"


def test_a_batch_of_requests_that_is_too_large_to_be_signed_is_refused():
    author = authorship.Author("User:ann", "127.0.0.1")
    big = records.build([records.Record(0, 0, b"k", bytes(2 << 20))], codec=1)
    many = records.build([records.Record(n, 0, b"k", b"{}") for n in range(1001)])
    assert authorship.signed_batch(big, author) == b""
    assert authorship.signed_batch(many, author) == b""
    large = records.build([records.Record(0, 0, b"k", bytes(2 << 20))])
    assert authorship.signed_batch(large, author) == b""
    # Nothing of very many records is looked at, not even whether they are some.
    header = batches.read_header(many)._replace(record_count=100_000, last_offset_delta=99_999)
    assert authorship.signed_batch(batches.pack(header, bytes(900_000)), author) == b""
    empty = (("", b""),) * 500
    headers = records.build([records.Record(n, 0, b"k", b"", empty) for n in range(900)], codec=1)
    assert len(headers) < 10_000  # and would take seconds of the event loop
    assert authorship.signed_batch(headers, author) == b""
    assert authorship.signed_batch(b"no batch", author) == b"no batch"


def test_only_one_batch_of_requests_is_signed_for_a_produce_request(tmp_path: Path):
    with broker(tmp_path, {}) as server, connected(server.bootstrap) as wire:
        name = "__headwater_excisions"
        wire.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
        parts = [{"index": 0, "records": batch()}] * 3
        twice = [{"name": name, "partition_data": parts}] * 2
        answer = wire.ask("produce", 9, acks=-1, timeout=30_000, topic_data=twice)
        rows = [row.error_code for each in answer.responses for row in each.partition_responses]
        assert rows == [0, 87, 87, 87, 87, 87]
        assert end_offset(wire, name) == 1
