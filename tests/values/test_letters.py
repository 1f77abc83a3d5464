"""Dead letters of values that are larger than a record may be, or older: written all the same."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from headwater.browse.dead_letters.letter import letter_of
from headwater.browse.dead_letters.replay import Correction, replay, send_one
from headwater.browse.dead_letters.survey import LettersRefused
from headwater.capture.change import Batch
from headwater.capture.errors import LogRefused
from headwater.capture.writer import Writer
from headwater.client.dead_letter_writer import (
    TRANSACTION_BYTES,
    BadRecord,
    DeadLetterWriter,
    LetterNotTaken,
)
from headwater.record import dead_letter
from headwater.record.dead_letter import Cause
from headwater.testing.values import MEGABYTE


def made(bootstrap: str, **config: str) -> str:
    """A topic of its own."""
    name = f"t{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, config=named)])[name].result(30)
    return name


def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    found = [reader.poll(30) for _ in range(count)]
    reader.close()
    return found


@given(
    st.integers(0, 2 * MEGABYTE), st.integers(0, MEGABYTE), st.integers(0, MEGABYTE),
    st.integers(0, MEGABYTE), st.integers(0, 50),
)  # fmt: skip
def test_a_letter_of_anything_fits_into_a_record(
    value: int, key: int, header: int, row: int, headers: int
) -> None:
    own = [("h", b"x" * header), *[(f"h{n}", None) for n in range(headers)]]
    cause = Cause("view", "why", "t", more={"row": "é" * (row // 2)})
    made = dead_letter.letter(b"k" * key, b"v" * value, own, cause)
    size = len(made.key or b"") + len(made.value or b"")
    size += sum(len(name.encode()) + len(each or b"") for name, each in made.headers)
    assert size < MEGABYTE
    names = {name.removeprefix(dead_letter.HEADER): each for name, each in made.headers}
    assert (names["topic"], names["message"]) == (b"t", b"why")
    assert (len(made.value or b"") == value) == ("cut" not in names)
    assert int(names.get("cut", b"0")) in (0, value)
    whole = (len(made.value or b""), len(made.key or b"")) == (value, key)
    assert dead_letter.is_cut(names) == (not whole or "cut.headers" in names)
    names["row"].decode()  # cut between two characters


def test_a_value_of_a_megabyte_becomes_a_letter_that_says_how_much_it_lacks(bootstrap: str) -> None:
    source = made(bootstrap, max_message_bytes=str(4 * MEGABYTE))
    box = DeadLetterWriter({"bootstrap.servers": bootstrap}, source, 0, None)
    letters = [
        BadRecord(n, 1000, b"k", b"x" * size, [], "why") for n, size in enumerate((5, 2 * MEGABYTE))
    ]
    for _ in range(2):  # and once, however often it is written
        box.put(letters)
    whole, cut = (letter_of(each) for each in read(bootstrap, box.topic, 2))
    assert (whole.value, whole.is_cut) == (b"xxxxx", False)
    assert (cut.is_cut, cut.said["cut"], cut.reason) == (True, str(2 * MEGABYTE), "why")
    assert cut.value == b"x" * len(cut.value) and len(cut.value) > MEGABYTE * 0.9
    with pytest.raises(
        LettersRefused, match=f"the beginning of its record, which is {source}-0 at offset 1"
    ):
        replay({"bootstrap.servers": bootstrap}, box.topic)


@pytest.mark.parametrize(
    ("key", "headers"), [(b"k" * 100_000, []), (b"k", [("h", b"x" * 100_000)])]
)
def test_a_mended_value_goes_with_the_records_whole_key_and_headers_or_not_at_all(
    bootstrap: str, key: bytes, headers: list[tuple[str, bytes | None]]
) -> None:
    source = made(bootstrap)
    box = DeadLetterWriter({"bootstrap.servers": bootstrap}, source, 0, None)
    box.put([BadRecord(0, 1000, key, b"{", headers, "why")])
    mended = Correction(0, 0, b"{}", is_changed=True)
    with pytest.raises(LettersRefused, match="the beginning of its record"):
        send_one({"bootstrap.servers": bootstrap}, box.topic, mended)


def test_a_value_that_was_cut_can_be_mended_but_is_not_sent_as_it_is(bootstrap: str) -> None:
    source, settings = made(bootstrap), {"bootstrap.servers": bootstrap}
    box = DeadLetterWriter(settings, source, 0, None)
    box.put([BadRecord(0, 1000, b"k", b"x" * 2 * MEGABYTE, [("h", b"1")], "why")])
    (letter,) = (letter_of(each) for each in read(bootstrap, box.topic, 1))
    with pytest.raises(LettersRefused, match="the beginning of its record"):
        send_one(
            settings, box.topic, Correction(0, 0, bytes(bytearray(letter.value)), is_changed=True)
        )
    send_one(settings, box.topic, Correction(0, 0, b"{}", is_changed=True))
    (sent,) = read(bootstrap, source, 1)
    assert (sent.key(), sent.value(), sent.headers()) == (b"k", b"{}", [("h", b"1")])


def test_letters_are_written_however_many_and_large_they_are_together(
    bootstrap: str,
) -> None:
    """More than a producer holds, and than goes into one transaction."""
    box = DeadLetterWriter({"bootstrap.servers": bootstrap}, made(bootstrap), 0, None)
    count = 2 * TRANSACTION_BYTES // MEGABYTE
    letters = [BadRecord(n, 1000, None, b"x" * MEGABYTE, [], "why") for n in range(count)]
    for _ in range(2):
        box.put(letters)
    box.put([BadRecord(count, 1000, None, b"{", [], "why")])
    found = [letter_of(each) for each in read(bootstrap, box.topic, count + 1)]
    assert [each.source_offset for each in found] == list(range(count + 1))


def test_a_letter_keeps_the_time_of_its_record_however_old(bootstrap: str) -> None:
    box = DeadLetterWriter({"bootstrap.servers": bootstrap}, made(bootstrap), 0, None)
    box.put([BadRecord(0, 1, None, b"{", [], "why"), BadRecord(1, 2**52, None, b"{", [], "why")])
    assert [each.timestamp()[1] for each in read(bootstrap, box.topic, 2)] == [1, 2**52]


def test_letters_that_the_broker_refuses_for_good_are_an_error_by_name(bootstrap: str) -> None:
    strict = made(bootstrap, message_timestamp_before_max_ms="1000")
    box = DeadLetterWriter({"bootstrap.servers": bootstrap}, made(bootstrap), 0, strict)
    with pytest.raises(LetterNotTaken, match=r"does not take dead letters: .*INVALID_TIMESTAMP"):
        box.put([BadRecord(0, 1, None, b"{", [], "why")])


def test_a_capture_stops_at_a_batch_that_the_log_refuses_for_good(bootstrap: str) -> None:
    topic = made(bootstrap, max_message_bytes="1000")
    writer = Writer(f"w{uuid.uuid4().hex[:6]}", bootstrap)
    writer.open()
    try:
        with pytest.raises(LogRefused, match=r"would not take it again: .*MSG_SIZE_TOO_LARGE"):
            writer.write(Batch({"n": 1}, [(topic, None, os.urandom(5000))]))
    finally:
        writer.close()
