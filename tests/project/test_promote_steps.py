"""What promote decides without a broker: the steps of a partition, what is the same, what a file says."""

from __future__ import annotations

import tomllib

import pytest

from headwater.project.promote.addresses import moved
from headwater.project.promote.comparison import compare
from headwater.project.promote.steps import Abort, Data, Gap, Stored, sent_by, steps
from headwater.record import batch as batches
from headwater.record import codecs, control, records
from headwater.record.records import Record


def stored(*offsets: int, aborted: bool = False, last: int | None = None, **more: object) -> Stored:
    """A batch with records at these offsets."""
    found = [Record(n, 1000 + n, b"k%d" % n, b"v" * n, (("h", b"%d" % n),)) for n in offsets]
    base = int(more.pop("base", offsets[0] if offsets else 0))  # type: ignore[call-overload]
    delta = None if last is None else last - base
    data = records.build(found, base_offset=base, last_offset_delta=delta, **more)  # type: ignore[arg-type]
    return Stored(batches.read_header(data), data, aborted)


def marker(offset: int, kind: int, producer: int) -> Stored:
    data = control.marker(kind, producer, 0, offset, 5, 0)
    return Stored(batches.read_header(data), data)


def shape(step: object) -> object:
    match step:
        case Data(first, count, _, producer):
            return (first, count, producer)
        case Gap(first, count):
            return f"gap {first}+{count}"
        case Abort(first, producer):
            return f"abort {producer} at {first}"


def test_every_offset_is_taken_once_and_in_order():
    """
    offset    5 6 7   8         9 10  11      12        13..15      16  17..19
              data    commit    data  of 7    abort 7   hole        x   hole
    """
    found = [
        stored(5, 6, 7, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
        marker(8, control.COMMIT, 3),
        stored(9, 10, 11, aborted=True, producer_id=7, producer_epoch=1, base_sequence=0),
        marker(12, control.ABORT, 7),
        stored(16, base=13, last=17),
    ]
    made = list(steps(found, 5, 20))
    assert [shape(step) for step in made] == [
        (5, 3, None),
        "gap 8+1",
        (9, 3, 7),
        "abort 7 at 12",
        "gap 13+3",
        (16, 1, None),
        "gap 17+3",
    ]
    ends = [step.first + step.count for step in made]
    assert [step.first for step in made] == [5, *ends[:-1]]
    assert ends[-1] == 20


def test_a_batch_that_the_logs_start_cuts_is_gathered_anew():
    (step,) = steps([stored(0, 1, 2, 3)], 2, 4)
    assert isinstance(step, Data)
    assert [r.offset for r in records.decode(step.batch)] == [2, 3]


def test_a_marker_of_a_transaction_without_records_is_a_gap():
    assert list(steps([marker(0, control.ABORT, 9)], 0, 1)) == [Gap(0, 1)]


def test_times_that_a_broker_gave_are_kept_as_the_producers():
    (step,) = steps([stored(0, 1, log_append_time=77)], 0, 2)
    assert isinstance(step, Data)
    assert not batches.read_header(step.batch).is_log_append_time
    assert {r.timestamp for r in records.decode(step.batch)} == {77}


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.GZIP, codecs.LZ4, codecs.ZSTD])
def test_what_is_sent_has_the_same_bytes_and_another_producer(codec: int):
    old = stored(4, 5, codec=codec, producer_id=3, producer_epoch=2, base_sequence=9)
    (step,) = steps([old], 4, 6)
    assert isinstance(step, Data)
    data = sent_by(step.batch, 70, 1, 5, transactional=True)
    header = batches.check(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (70, 1, 5)
    assert header.is_transactional
    assert data[batches.HEADER_BYTES :] == old.data[batches.HEADER_BYTES :]


def test_partitions_are_the_same_whatever_their_batches_and_markers():
    old = [stored(0, 1), marker(2, control.COMMIT, 1), stored(3, 5, last=6)]
    new = [stored(0), stored(1), stored(3), marker(4, control.COMMIT, 8), stored(5)]
    found = compare(old, new, 0, 7)
    assert found.difference is None
    assert found.records == 4


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ([stored(0, 1)], "Kafka lacks the record at offset 2"),
        ([stored(0, 1), stored(2, 3)], "Kafka has a record at offset 3 that the log has not"),
        ([stored(1, 2)], "Kafka lacks the record at offset 0"),
        ([stored(0, 1), stored(2, aborted=True)], "at offset 2 differs in its transaction"),
        ([stored(0, 1), stored(2, log_append_time=9)], "at offset 2 differs in its timestamp"),
    ],
)
def test_what_is_not_the_same_is_named(new: list[Stored], said: str):
    found = compare([stored(0, 1, 2)], new, 0, 4)
    assert found.difference is not None and said in found.difference


def test_a_changed_byte_is_found():
    old = stored(0)
    record = records.decode(old.data)[0]._replace(value=b"x")
    data = records.build([record])
    found = compare([old], [Stored(batches.read_header(data), data)], 0, 1)
    assert found.difference == "the record at offset 0 differs in its value"


def test_the_addresses_change_and_everything_else_stays():
    text = (
        '# mine\n[capture.shop]\nfrom = "sqlite:shop.db"\n[log] # the log\ndata = "d" # x\n'
        'listen = "127.0.0.1:9092"\n[log.settings]\n"num.partitions" = 4\n[views.a]\nto = "sqlite:v"\n'
    )
    after = moved(text, "k:9092", "spark://m:7077")
    assert tomllib.loads(after) == {
        "capture": {"shop": {"from": "sqlite:shop.db"}},
        "log": {"bootstrap": "k:9092"},
        "spark": {"master": "spark://m:7077"},
        "views": {"a": {"to": "sqlite:v"}},
    } | {"log": {"bootstrap": "k:9092"}}
    assert "# mine" in after and '# data = "d" # x' in after


def test_spark_stays_where_it_is_unless_told():
    text = '[spark]\nmaster = "local[2]"\ncheckpoints = "c"\n'
    assert tomllib.loads(moved(text, "k:1", None))["spark"]["master"] == "local[2]"
    remote = tomllib.loads(moved(text, "k:1", "sc://h:15002"))["spark"]
    assert remote == {"remote": "sc://h:15002", "checkpoints": "c"}


def test_comments_stay_where_they_are_and_what_no_longer_counts_is_one():
    text = (
        "[log]  # ours\n# where it lies\ndata = 'd'   # on disk\nkept = 1\n\n"
        "# settings of the broker\n[log.settings]\na = 1\n\n# about views\n[views.a]\nto = 'x:y'\n"
    )
    assert moved(text, "k:9092", None) == (
        "[log]  # ours\nbootstrap = \"k:9092\"\n# where it lies\n# data = 'd'   # on disk\nkept = 1\n\n"
        "# settings of the broker\n# [log.settings]\n# a = 1\n\n# about views\n\n"
        "[views.a]\nto = 'x:y'\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        'log.data = "d"\nlog.settings.a = 1\n',
        'log = { data = "d", settings = { a = 1 } }\n',
        '[log.settings]\na = 1\n[views.x]\nto = "x:y"\n',
        '[log]\ndata = "d"\n[views.x]\nto = "x:y"\n[log.settings]\na = 1\n',
        '["log"]\n"data" = """d\ne"""\n',
        '[log]\r\ndata = "d"\r\n',
        "",
    ],
)
def test_however_a_file_is_written_it_can_be_changed(text: str):
    before = tomllib.loads(text)
    assert tomllib.loads(moved(text, "k:9092", None)) == before | {"log": {"bootstrap": "k:9092"}}
