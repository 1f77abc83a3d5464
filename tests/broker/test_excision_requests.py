"""Requests to excise that make no sense: refused, audited, and the next one is carried out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import excision_request, excisions, internal_topics
from headwater.broker.catalogue import Catalogue
from headwater.broker.excision_progress import ExcisionProgress
from headwater.broker.excision_request import ExcisionRefused
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.serving import Serving, delete, serving
from tests.compat.asking import produce, read_all
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

SALT = b"\x01" * 16


def of_key(key: bytes) -> dict[str, str]:
    return {"salt": SALT.hex(), "digest": hashlib.sha256(SALT + key).hexdigest()}


ALL = {"first_offset": 0, "last_offset": 49}


def good(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"good-{number}", "topic": "t", "target": of_key(b"k"), "who": "me", **more}


BAD: dict[str, Any] = {
    "a partition that is a text": good(0, id="b1", partitions=["x"]),
    "a partition that is a list": good(0, id="b2", partitions=[[0]]),
    "partitions that are a text": good(0, id="b3", partitions="0"),
    "partitions that are a number": good(0, id="b4", partitions=0),
    "a negative partition": good(0, id="b5", partitions=[-1]),
    "a partition that is true": good(0, id="b6", partitions=[True]),
    "a partition beyond the last": good(0, id="b7", partitions=[99]),
    "a partition as large as can be": good(0, id="b8", partitions=[2**200]),
    "a partition twice": good(0, id="b9", partitions=[0, 0]),
    "no partitions": good(0, id="b10", partitions=[]),
    "a partition that is a fraction": good(0, id="b11", partitions=[0.5]),
    "an unknown topic": good(0, id="b12", topic="nobody"),
    "a topic of the broker's": good(0, id="b13", topic="__headwater_audit"),
    "a topic that is a number": good(0, id="b14", topic=17),
    "a topic that is an object": good(0, id="b15", topic={"a": 1}),
    "a target that is a text": good(0, id="b16", target="all"),
    "a target that is a list": good(0, id="b17", target=["salt"]),
    "no target": {"id": "b18", "topic": "t"},
    "an empty target": good(0, id="b19", target={}),
    "a target with something else": good(0, id="b20", target={"everything": True}),
    "a digest that is a number": good(0, id="b21", target={"salt": "00", "digest": 5}),
    "a digest that is not hexadecimal": good(0, id="b22", target={"salt": "00", "digest": "zz"}),
    "a digest that is too short": good(0, id="b23", target={"salt": "00", "digest": "00"}),
    "a salt that is not hexadecimal": good(0, id="b24", target={**of_key(b"k"), "salt": "x"}),
    "offsets that are texts": good(0, id="b25", target={"first_offset": "0", "last_offset": "9"}),
    "offsets backwards": good(0, id="b26", target={"first_offset": 9, "last_offset": 0}),
    "negative offsets": good(0, id="b27", target={"first_offset": -5, "last_offset": 9}),
    "offsets beyond 64 bits": good(0, id="b28", target={"first_offset": 0, "last_offset": 2**80}),
    "a key and offsets": good(0, id="b29", target={**of_key(b"k"), "first_offset": 0}),
    "a dry run that is a text": good(0, id="b30", dry_run="no"),
    "an id that is a number": good(0, id=5),
    "an id that is an object": good(0, id={"a": [1]}),
    "an id without end": good(0, id="x" * 5000),
    "no id": {"topic": "t", "target": of_key(b"k")},
    "a list": [1, 2, 3],
    "a text": "excise",
    "null": None,
    "a number": 7,
    "a huge request": good(0, id="b40", why="y" * 200_000),
    "a topic id that is a number": good(0, id="b41", topic_id=5),
    "a topic id that is no UUID": good(0, id="b42", topic_id="x"),
    "a topic id of another topic": good(0, id="b43", topic_id="0" * 32),
    "a surrogate in the id": good(0, id="\ud800"),
}
RAW: dict[str, bytes | None] = {
    **{name: json.dumps(value).encode() for name, value in BAD.items()},
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe{}",
    "no value": None,
    "an empty value": b"",
    "brackets without end": b"[" * 60_000,
    "a number without end": b"9" * 60_000,
}


@pytest.mark.parametrize("name", RAW)
def test_whatever_is_wrong_with_a_request_it_is_refused_in_a_sentence(name: str) -> None:
    needs_the_broker = {
        "an unknown topic",
        "a topic id of another topic",
        "a topic of the broker's",
        "a partition beyond the last",
        "a partition as large as can be",
    }
    told = excision_request.told(RAW[name])
    assert len(json.dumps(told)) < 10_000
    if name not in needs_the_broker:
        with pytest.raises(ExcisionRefused) as refusal:
            excision_request.read(RAW[name])
        assert 5 < len(str(refusal.value)) < 300


def ask(broker: Serving, *values: bytes | None, ahead_ms: int = 0) -> None:
    """Write requests as anybody with the right to could, whatever the time is there."""

    async def append() -> None:
        own = broker.broker
        if excisions.REQUESTS not in own.catalogue.topics:
            await own.topics.ensure(excisions.REQUESTS)
        partition = own.topics.partitions[excisions.REQUESTS, 0]
        for value in values:
            now_ms = own.clock.now_ms()
            data = records.build([records.Record(0, now_ms + ahead_ms, None, value)])
            offset = partition.append(data, batches.read_header(data), now_ms)
            await partition.durable(offset + 1)

    broker.run(append())


def audit(broker: Serving) -> list[dict[str, Any]]:
    def read() -> list[dict[str, Any]]:
        found = broker.broker.partition(excisions.AUDIT, 0)
        if found is None:
            return []
        data = bytes(found.log.read(0, 64 << 20) or b"")
        return [
            json.loads(record.value or b"")
            for position, _ in batches.scan(data)
            for record in records.decode(data, position)
        ]

    return broker.call(read)


def wait_for(broker: Serving, count: int) -> list[dict[str, Any]]:
    until(lambda: len(audit(broker)) >= count, f"{count} lines of the audit")
    lines = audit(broker)
    assert len(lines) == count
    return lines


def write(broker: Serving, topic: str, count: int = 20) -> None:
    with broker.wire() as wire:
        for number in range(count):
            key = b"k" if number % 2 else b"other"
            answer = produce(wire, topic, batch([(key, b"v%d" % number)]))
            assert answer.error_code is ErrorCode.none


def test_a_bad_request_is_refused_and_audited_and_the_next_one_is_carried_out(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, *RAW.values(), json.dumps(good(1)).encode())
        *refused, done = wait_for(broker, len(RAW) + 1)
        assert {line["status"] for line in refused} == {"refused"}
        assert (done["status"], done["removed"], done["claimed"]) == ("done", 10, "me")
        assert len({line["request"] for line in (*refused, done)}) == len(RAW) + 1
        assert broker.broker.health.tasks["excisions"].failures == 0
    with serving(data) as broker:  # and after a restart, without doing anything twice
        ask(broker, RAW["a partition that is a text"], json.dumps(good(2)).encode())
        lines = wait_for(broker, len(RAW) + 3)
        assert [line["status"] for line in lines[-2:]] == ["refused", "done"]


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_excised_for_a_transaction_that_may_be_aborted(data: Path, version: int) -> None:
    """It was, before the transaction ended, and the abort brought nothing back."""
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        write(broker, "t")
        ask(broker, json.dumps(good(1, dry_run=True)).encode())
        wait_for(broker, 1)
        one = Transactor(wire, "one", version).init()
        if version == 1:
            assert one.add(excisions.REQUESTS, 0) is ErrorCode.none
        refused = one.produce(excisions.REQUESTS, json.dumps(good(2)).encode())
        assert refused.error_code is ErrorCode.invalid_topic_exception
        assert "transaction" in refused.error_message
        if version == 1:
            one.end(commit=False)  # its marker is there, and no request
        ask(broker, json.dumps(good(3, dry_run=True)).encode())
        assert [line["status"] for line in wait_for(broker, 2)] == ["done", "done"]
        assert readable(broker, "t") == 20


def test_an_id_that_was_used_before_is_refused_also_after_a_restart(data: Path) -> None:
    request = json.dumps(good(1)).encode()
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, request, request)
        assert [line["status"] for line in wait_for(broker, 2)] == ["done", "refused"]
    with serving(data) as broker:
        ask(broker, request)
        assert wait_for(broker, 3)[-1]["status"] == "refused"


def test_a_dry_run_does_not_use_up_its_id(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, json.dumps(good(1, dry_run=True)).encode(), json.dumps(good(1)).encode())
        assert [line["status"] for line in wait_for(broker, 2)] == ["done", "done"]


def test_a_request_that_fails_holds_up_no_other_and_is_tried_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment of `bad` cannot be found: its excision cannot be done before it is back."""
    monkeypatch.setattr(excisions, "RETRY_SECONDS", 0.1)
    with serving(data) as broker:
        for topic in ("bad", "t"):
            broker.create(topic)
            write(broker, topic)
        (segment,) = (data / "bad-0").glob("*.log")
        segment.rename(segment.with_suffix(".elsewhere"))
        ask(broker, json.dumps(good(1, topic="bad")).encode(), json.dumps(good(2)).encode())
        (line,) = wait_for(broker, 1)
        assert (line["id"], line["status"]) == ("good-2", "done")
        until(lambda: broker.broker.health.tasks["excisions"].is_failing, "the failure to be shown")
        segment.with_suffix(".elsewhere").rename(segment)
        assert wait_for(broker, 2)[-1]["id"] == "good-1"
        until(lambda: not broker.broker.health.tasks["excisions"].is_failing, "all to be well")


def test_a_damaged_segment_is_left_and_named_in_the_audit_and_all_others_are_done(
    data: Path,
) -> None:
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, json.dumps(good(1, dry_run=True)).encode())
        (whole,) = wait_for(broker, 1)
        write(broker, "t")
        first = min((data / "t-0").glob("*.log"))
        content = first.read_bytes()
        first.write_bytes(content[:100] + b"\xff" * 50 + content[150:])
        ask(broker, json.dumps(good(2)).encode())
        line = wait_for(broker, 2)[-1]
        assert (line["id"], line["status"]) == ("good-2", "incomplete")
        assert line["removed"] == whole["removed"] > 0, "those of the segment that is well"
        (left,) = line["left"]
        assert f"{first} is damaged at byte" in left
        assert "headwater check" in line["error"]
        assert not broker.broker.health.tasks["excisions"].is_failing
    assert first.read_bytes()[100:150] == b"\xff" * 50


def test_a_request_topic_that_was_deleted_and_made_again_is_followed(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, *[json.dumps(good(number, dry_run=True)).encode() for number in range(3)])
        wait_for(broker, 3)
        broker.run(broker.broker.topics.delete(excisions.REQUESTS))
        ask(broker, json.dumps(good(1)).encode())
        assert wait_for(broker, 4)[-1]["status"] == "done"


# ---- a topic that was made again is another ------------------------------------------------------------


def readable(broker: Serving, topic: str) -> int:
    with broker.wire() as wire:
        return sum(each.count for each in read_all(wire, topic))


def made_again(broker: Serving, topic: str) -> None:
    with broker.wire() as wire:
        assert delete(wire, topic) is ErrorCode.none
    broker.create(topic)
    write(broker, topic)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_request_that_is_tried_again_never_reaches_a_topic_that_was_made_again(
    data: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool, named: bool
) -> None:
    monkeypatch.setattr(excisions, "RETRY_SECONDS", 3600.0 if restarted else 0.1)
    with serving(data) as broker:
        topic_id = broker.create("t")
        write(broker, "t")
        (segment,) = (data / "t-0").glob("*.log")
        segment.rename(segment.with_suffix(".elsewhere"))
        more = {"topic_id": str(topic_id)} if named else {}
        ask(broker, json.dumps(good(1, target=ALL, **more)).encode(), ahead_ms=60_000)
        until(lambda: broker.broker.health.tasks["excisions"].is_failing, "the failure")
        made_again(broker, "t")
        if not restarted:
            (line,) = wait_for(broker, 1)
            assert readable(broker, "t") == 20
    if restarted:
        with serving(data) as broker:
            (line,) = wait_for(broker, 1)
            assert readable(broker, "t") == 20
    assert line["status"] == "refused"
    # A try in the moment between the two topics finds none.
    gone = "was made again" in line["error"] or (
        not restarted and "there is no topic" in line["error"]
    )
    assert gone, line


def lose_the_audit(broker: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker did that let clients delete it."""
    with monkeypatch.context() as patched:
        patched.setattr(internal_topics, "TESTIMONY", frozenset())
        broker.run(broker.broker.topics.delete(excisions.AUDIT))


def test_requests_are_not_carried_out_again_if_the_audit_is_deleted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excisions, "RETRY_SECONDS", 0.1)
    with serving(data) as broker:
        for topic in ("t", "bad"):
            broker.create(topic)
            write(broker, topic)
        (segment,) = (data / "bad-0").glob("*.log")
        segment.rename(segment.with_suffix(".elsewhere"))
        asked = [good(1), good(2, topic="bad"), good(3)]
        ask(broker, *(json.dumps(each).encode() for each in asked))
        wait_for(broker, 2)
        segment.with_suffix(".elsewhere").rename(segment)
        wait_for(broker, 3)
        write(broker, "t")
        lose_the_audit(broker, monkeypatch)
        broker.create("other")  # the catalogue has everything that was put before
    with serving(data) as broker:
        ask(broker, json.dumps(good(4, dry_run=True)).encode())
        (line,) = wait_for(broker, 1)
        assert line["id"] == "good-4"
        assert readable(broker, "t") == 30, "ten were excised, and none of the second twenty"


def test_what_failed_is_tried_again_after_a_restart_even_if_the_audit_is_deleted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data) as broker:
        for topic in ("t", "bad"):
            broker.create(topic)
            write(broker, topic)
        (segment,) = (data / "bad-0").glob("*.log")
        segment.rename(segment.with_suffix(".elsewhere"))
        ask(broker, json.dumps(good(1, topic="bad")).encode(), json.dumps(good(2)).encode())
        wait_for(broker, 1)
        segment.with_suffix(".elsewhere").rename(segment)
        lose_the_audit(broker, monkeypatch)
    with serving(data) as broker:
        (line,) = wait_for(broker, 1)
        assert (line["id"], line["status"], line["removed"]) == ("good-1", "done", 10)


def test_requests_that_a_power_cut_has_taken_are_not_taken_for_answered_ones(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        write(broker, "t")
        ask(broker, json.dumps(good(1)).encode(), json.dumps(good(2, dry_run=True)).encode())
        wait_for(broker, 2)
        catalogue = broker.broker.catalogue
        topic_id = str(catalogue.topics[excisions.REQUESTS].id)
        until(lambda: _progress(catalogue, topic_id).last == 1, "both to be noted")
        same = records.Record(1, 0, None, json.dumps(good(2, dry_run=True)).encode())
        for found, expected in (([same], True), ([same._replace(value=b"{}")], False), ([], False)):
            progress = _progress(catalogue, topic_id)
            progress.trust(found)
            assert progress.is_answered(0) is expected


def _progress(catalogue: Catalogue, topic_id: str) -> ExcisionProgress:
    progress = ExcisionProgress(catalogue)
    progress.open(topic_id)
    return progress
