"""Files damaged behind the broker's back: it starts, says so, serves the rest and alters nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from headwater.record import batch as batches

from .clients import Stored, create_topic, read_all, read_at, send
from .process import BrokerProcess

VALUES = [b"value %02d of twenty" % number for number in range(20)]


@pytest.fixture
def stored(broker: BrokerProcess) -> list[Stored]:
    """Twenty batches of one record in the topic `t`."""
    create_topic(broker.bootstrap, "t")
    found = send(broker.bootstrap, "t", VALUES)
    assert [record.offset for record in found] == list(range(20))
    return found


def places(log: Path) -> list[int]:
    """Where the batches begin."""
    return [position for position, _ in batches.scan(log.read_bytes())]


@pytest.mark.parametrize(
    ("end", "garbage"),
    [
        ("kill", b"\xde\xad\xbe\xef" * 50),
        ("kill", bytes(4096)),
        ("kill", b"x"),
        ("stop", b"\0" * 16 + b"\2" + b"\xff" * 60),
    ],
    ids=["noise", "zeros", "one byte", "half a header after a clean stop"],
)
def test_garbage_behind_the_last_record_is_cut(
    broker: BrokerProcess, stored: list[Stored], end: str, garbage: bytes
) -> None:
    getattr(broker, end)()
    log = broker.last_log("t")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(garbage)
    broker.start()
    assert log.stat().st_size == size, "the garbage is still there"
    assert read_all(broker.bootstrap, "t") == stored
    assert send(broker.bootstrap, "t", [b"more"]) == [Stored(0, 20, b"more")]
    assert read_all(broker.bootstrap, "t") == [*stored, Stored(0, 20, b"more")]


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("left", [0, 30])
def test_a_lost_end_is_reported_and_its_offset_never_given_again(
    broker: BrokerProcess, stored: list[Stored], end: str, left: int
) -> None:
    getattr(broker, end)()
    log = broker.last_log("t")
    with log.open("r+b") as file:
        file.truncate(places(log)[-1] + left)
    broker.start()
    assert "offset 19" in broker.said() or "is damaged at byte" in broker.said()
    assert send(broker.bootstrap, "t", [b"more"]) == [Stored(0, 20, b"more")]
    for record in [*stored[:-1], Stored(0, 20, b"more")]:
        assert read_at(broker.bootstrap, "t", record.offset) == record
    lost = read_at(broker.bootstrap, "t", 19)
    assert isinstance(lost, KafkaError) or lost == Stored(0, 20, b"more")


@pytest.mark.parametrize(
    ("place", "what"), [(80, "a value"), (11, "a length"), (7, "an offset"), (16, "the magic")]
)
def test_a_damaged_byte_in_the_middle_costs_that_record_and_no_other(
    broker: BrokerProcess, stored: list[Stored], place: int, what: str
) -> None:
    broker.stop()
    log = broker.last_log("t")
    data = bytearray(log.read_bytes())
    data[places(log)[10] + place] ^= 0x10
    log.write_bytes(data)
    broker.start()
    for record in stored:
        found = read_at(broker.bootstrap, "t", record.offset)
        refused = isinstance(found, KafkaError)
        if record.offset == 10:
            assert refused, f"damage in {what} was served: {found}"
        else:
            assert not refused, f"damage in {what} at offset 10 costs {record.offset}: {found}"
            assert found == record
    assert send(broker.bootstrap, "t", [b"more"]) == [Stored(0, 20, b"more")]
    assert read_at(broker.bootstrap, "t", 20) == Stored(0, 20, b"more")


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_what_can_be_rebuilt_may_be_lost(
    broker: BrokerProcess, stored: list[Stored], suffix: str
) -> None:
    broker.stop()
    for path in broker.folder("t").glob(f"*{suffix}"):
        path.unlink()
    broker.start()
    assert read_all(broker.bootstrap, "t") == stored
    assert send(broker.bootstrap, "t", [b"more"]) == [Stored(0, 20, b"more")]
