"""A dead letter's headers: what one writes another reads, whole or cut, written now or before."""

from __future__ import annotations

from pathlib import Path

import headwater
from headwater.record import dead_letter
from headwater.record.dead_letter import HEADER, LETTER_BYTES_MAX, Cause

CAUSE = Cause("billing", "no such customer", "orders", 3, 17, 5, {"row": '{"id": 1}'})


def test_what_a_writer_says_is_what_a_reader_finds():
    key, value, headers = dead_letter.letter(b"k", b"v", [("own", b"1")], CAUSE)

    assert (key, value) == (b"k", b"v")
    assert dead_letter.cause_of(headers) == CAUSE
    assert dead_letter.own_headers(headers) == [("own", b"1")]


def test_the_letter_of_a_letter_says_the_later_cause_alone():
    once = dead_letter.letter(b"k", b"v", [("own", b"1")], Cause("first", "why", "orders", 0, 1))
    again = dead_letter.letter(once.key, once.value, once.headers, CAUSE)

    assert dead_letter.cause_of(again.headers) == CAUSE
    assert len({name for name, _ in again.headers}) == len(again.headers)


def test_a_record_that_never_was_in_the_log_has_no_place_and_no_count():
    letter = dead_letter.letter(None, b"v", (), Cause("headwater.http", "no JSON", "orders"))

    found = dead_letter.cause_of(letter.headers)

    assert found is not None
    assert (found.partition, found.offset, found.deliveries) == (-1, -1, None)


def test_what_was_written_with_a_topic_and_a_message_alone_is_a_letter():
    before = [(HEADER + "topic", b"shop.outbox"), (HEADER + "message", b"no topic")]

    assert dead_letter.cause_of(before) == Cause("", "no topic", "shop.outbox")


def test_other_records_are_no_letters():
    assert dead_letter.cause_of([]) is None
    assert dead_letter.cause_of([("own", b"1"), (HEADER + "message", b"why")]) is None
    assert (
        dead_letter.cause_of([(HEADER + "topic", b"orders"), (HEADER + "partition", b"?")]) is None
    )


def test_a_letter_is_never_larger_than_a_record_may_be_and_says_what_it_lost():
    large = Cause("view", "x" * 100_000, "orders", 0, 0, more={"row": "y" * 100_000})
    own = [("h", b"z" * 100_000)]

    key, value, headers = dead_letter.letter(b"k" * 100_000, b"v" * 2_000_000, own, large)

    size = len(key or b"") + len(value or b"") + sum(len(n) + len(v or b"") for n, v in headers)
    assert size < LETTER_BYTES_MAX
    found = dead_letter.cause_of(headers)
    assert found is not None
    assert dead_letter.is_cut(found.more)
    cut = {name: count for name, count in found.more.items() if name.startswith("cut")}
    assert cut == {
        "cut": "2000000",
        "cut.key": "100000",
        "cut.headers": "1",
        "cut.message": "100000",
        "cut.row": "100000",
    }


def test_a_letter_without_its_records_headers_is_cut_and_one_with_a_shorter_reason_is_not():
    for own, reason, is_cut in [([("h", b"z" * 100_000)], "why", True), ([], "x" * 100_000, False)]:
        letter = dead_letter.letter(b"k", b"v", own, Cause("view", reason, "orders", 0, 0))
        found = dead_letter.cause_of(letter.headers)
        assert found is not None
        assert dead_letter.is_cut(found.more) is is_cut


def test_nobody_else_spells_the_headers():
    source = Path(headwater.__file__).parent
    found = [
        each.relative_to(source).as_posix()
        for each in source.rglob("*.py")
        if '"__dlq.' in each.read_text()
    ]
    assert found == ["record/dead_letter.py"]
