"""Which records of a capture are marked, and what is left alone."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from headwater.capture.change import BY_KEY, EVERY_PARTITION, Record
from headwater.capture.config import CaptureConfig, from_file, from_mapping
from headwater.capture.errors import Misconfigured
from headwater.capture.traceparent import Traced
from headwater.edges.tracing.traceparent import parse, state


def marks(record: Record) -> dict[str, object]:
    return dict(record[3] or ()) if len(record) == 5 else {}


def traced(ratio: float, *never: str) -> Traced:
    return Traced("shop", ratio, never, random.Random(7), lambda: 1_763_245_200_123_456_789)


def test_a_marked_record_is_otherwise_the_same():
    records: list[Record] = [("shop.orders", b"k", b"v")]
    traced(1.0).mark(records)
    (record,) = records
    assert record[:3] == ("shop.orders", b"k", b"v")
    assert len(record) == 5 and record[4] == BY_KEY
    context = parse(marks(record)["traceparent"])  # type: ignore[arg-type]
    assert context is not None and context.sampled
    said = state(marks(record)["tracestate"])  # type: ignore[arg-type]
    assert said == "capture:shop:1763245200123456"


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_the_share_does_not_depend_on_the_size_of_batches(batch: int):
    chosen, each = 0, traced(0.02)
    for _ in range(50_000 // batch):
        records: list[Record] = [("t", b"k", b"v")] * batch
        each.mark(records)
        chosen += sum(len(record) == 5 for record in records)
    assert 850 < chosen < 1150


def test_every_place_of_a_batch_is_chosen_alike():
    places: Counter[int] = Counter()
    each = traced(0.1)
    for _ in range(3000):
        records: list[Record] = [("t", b"k", b"v")] * 10
        each.mark(records)
        places.update(n for n, record in enumerate(records) if len(record) == 5)
    assert min(places.values()) > 220 and max(places.values()) < 380


def test_what_is_no_change_of_a_row_is_left_alone():
    own = [("traceparent", b"the application's own")]
    records: list[Record] = [
        ("t", b"k", None),
        ("shop.transaction", b"k", b"BEGIN"),
        ("t", None, b"truncate", None, EVERY_PARTITION),
        ("outbox.event.Order", b"k", b"v", own, BY_KEY),
        ("outbox.event.Order", b"k", b"v", [("id", b"1")], BY_KEY),
    ]
    before = list(records)
    traced(1.0, "shop.transaction").mark(records)
    assert records[:4] == before[:4]
    assert list(marks(records[4])) == ["id", "traceparent", "tracestate"]


def test_nothing_is_traced_unless_it_is_asked_for(tmp_path: Path):
    file = tmp_path / "headwater.toml"
    file.write_text('[capture.shop]\nfrom = "sqlite:shop.db"\n')
    assert from_file(file, "shop", "b:1").traced == 0
    file.write_text(
        '[capture.shop]\nfrom = "sqlite:a.db"\n[capture.quiet]\nfrom = "sqlite:b.db"\ntraced = 0\n'
        '[edges.tracing]\notlp = "http://c:4318"\nratio = 0.25\n'
    )
    assert from_file(file, "shop", "b:1").traced == 0.25
    assert from_file(file, "quiet", "b:1").traced == 0


@pytest.mark.parametrize("ratio", [-0.1, 1.1, "all", True])
def test_a_share_is_a_number_from_0_to_1(ratio: object):
    with pytest.raises(Misconfigured, match="no share of the records"):
        from_mapping("shop", {"from": "sqlite:shop.db", "traced": ratio}, "b:1")
    assert CaptureConfig("shop", "sqlite:shop.db", traced=1).traced == 1
