"""Requests to excise that make no sense: refused, audited, and the next one is carried out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import excision_request, excisions
from headwater.broker.excision_request import Refused
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

SALT = b"\x01" * 16


def of_key(key: bytes) -> dict[str, str]:
    return {"salt": SALT.hex(), "digest": hashlib.sha256(SALT + key).hexdigest()}


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
        "a topic of the broker's",
        "a partition beyond the last",
        "a partition as large as can be",
    }
    told = excision_request.told(RAW[name])
    assert len(json.dumps(told)) < 10_000
    if name not in needs_the_broker:
        with pytest.raises(Refused) as refusal:
            excision_request.read(RAW[name])
        assert 5 < len(str(refusal.value)) < 300


def ask(broker: Serving, *values: bytes | None) -> None:
    """Write requests as anybody with the right to could."""

    async def append() -> None:
        own = broker.broker
        if excisions.REQUESTS not in own.catalogue.topics:
            await own.topics.ensure(excisions.REQUESTS)
        partition = own.topics.partitions[excisions.REQUESTS, 0]
        for value in values:
            now_ms = own.clock.now_ms()
            data = records.build([records.Record(0, now_ms, None, value)])
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
        assert (done["status"], done["removed"], done["who"]) == ("done", 10, "me")
        assert len({line["request"] for line in (*refused, done)}) == len(RAW) + 1
        assert broker.broker.health.tasks["excisions"].failures == 0
    with serving(data) as broker:  # and after a restart, without doing anything twice
        ask(broker, RAW["a partition that is a text"], json.dumps(good(2)).encode())
        lines = wait_for(broker, len(RAW) + 3)
        assert [line["status"] for line in lines[-2:]] == ["refused", "done"]


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
