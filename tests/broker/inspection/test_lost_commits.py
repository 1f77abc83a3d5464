"""Commit markers that are lost: `repair` writes them again where the coordinator's log proves the commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.broker.inspection.decisions import Decisions
from headwater.broker.inspection.findings import Severity
from headwater.broker.transactions.transaction import State, Transaction
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader
from tests.broker.inspection.world import batches_of, checked, mended, patch, repair
from tests.broker.serving import create, serving
from tests.compat.asking import fetch
from tests.compat.batches import CONTROL, read_batches
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import Wire

Place = tuple[Path, int, BatchHeader]
PATTERN = (True, False, True, True, False, True)
"""Whether each transaction commits; two producers take turns."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def filled(data: Path, version: int, *, commits: tuple[bool, ...] = PATTERN) -> set[bytes]:
    """A topic with transactions; the values that are committed."""
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "paid", internal_segment_bytes=700, retention_ms=-1)
        return written(wire, version, commits)


def written(wire: Wire, version: int, commits: tuple[bool, ...]) -> set[bytes]:
    producers = [Transactor(wire, name, version=version).init() for name in ("till", "desk")]
    committed = set[bytes]()
    for number, commit in enumerate(commits):
        for producer in producers:
            values = [b"%s-%d-%d" % (producer.name.encode(), number, n) for n in range(2)]
            for value in values:
                producer.write("paid", value)
            committed |= set(values) if commit else set()
        for producer in producers:
            producer.end(commit)
    return committed


def markers(data: Path, kind: int = control.COMMIT) -> list[Place]:
    return [
        (path, position, header)
        for path in sorted((data / "paid-0").glob("*.log"))
        for position, header in batches_of(path)
        if header.is_control and control.read_marker(path.read_bytes(), position).kind == kind
    ]


def scribble(place: Place) -> None:
    path, position, _ = place
    patch(path, position + 12, b"\xff" * 60)


def take_out(place: Place) -> None:
    path, position, header = place
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[position + header.size :])


def cut_before(place: Place) -> None:
    path, position, _ = place
    os.truncate(path, position)


def served(data: Path) -> set[bytes | None]:
    """What readers of committed records get."""
    with serving(data) as broker, broker.wire() as wire:
        log = broker.log("paid")
        until(lambda: broker.call(log.last_stable_offset) == log.durable_offset, "every end")
        return set(committed_values(wire, log.start_offset, log.durable_offset))


def committed_values(wire: Wire, offset: int, end: int) -> Iterator[bytes | None]:
    while offset < end:
        answer = fetch(wire, "paid", offset, max_wait=1, isolation_level=1)
        aborted = sorted((a.first_offset, a.producer_id) for a in answer.aborted_transactions or ())
        hidden = set[int]()
        for each in read_batches(answer.records):
            while aborted and aborted[0][0] <= each.last_offset:
                hidden.add(aborted.pop(0)[1])
            if each.attributes & CONTROL:
                hidden.discard(each.producer_id)
            elif each.producer_id not in hidden:
                yield from (value for _, value in each.pairs)
            offset = each.last_offset + 1


@pytest.mark.parametrize("damage", [scribble, take_out])
@pytest.mark.parametrize("number", range(8))
def test_what_has_committed_is_visible_after_a_repair(
    data: Path, damage: Callable[[Place], None], number: int
) -> None:
    committed = filled(data, 2)
    damage(markers(data)[number])
    mended(data)
    assert served(data) == committed


def test_every_commit_marker_of_a_partition_may_be_lost(data: Path) -> None:
    committed = filled(data, 2)
    for place in reversed(markers(data)):
        scribble(place)
    mended(data)
    assert served(data) == committed


def test_what_has_aborted_stays_hidden_where_its_marker_is_lost_as_well(data: Path) -> None:
    committed = filled(data, 2)
    for kind in (control.COMMIT, control.ABORT):
        for place in reversed(markers(data, kind)):
            take_out(place)
    mended(data)
    assert served(data) == committed


def test_a_commit_whose_records_are_lost_with_its_marker_shows_what_is_left_of_it(
    data: Path,
) -> None:
    committed = filled(data, 2)
    cut_before(markers(data)[2])
    mended(data)
    assert served(data) <= committed


def test_the_same_holds_for_offsets_that_were_committed_in_a_transaction(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "paid")
        till = Transactor(wire, "till").init()
        till.write("paid", b"v")
        till.send_offsets("readers", "paid", {0: 1})
        till.end()
    (place,) = [
        (path, position, header)
        for path in data.glob("__consumer_offsets-*/*.log")
        for position, header in batches.scan(path.read_bytes())
        if header.is_control
    ]
    scribble(place)
    mended(data)
    with serving(data) as broker, broker.wire() as wire:
        asked = {"group_id": "readers", "topics": [{"name": "paid", "partition_indexes": [0]}]}
        (group,) = wire.ask("offset_fetch", 8, groups=[asked]).groups
        assert group.topics[0].partitions[0].committed_offset == 1


def test_of_a_client_that_keeps_its_epoch_nothing_is_believed(data: Path) -> None:
    filled(data, 1)
    scribble(markers(data)[-1])
    repair(data)
    assert "commit-marker-lost" in [each.kind for each in checked(data).wrong]


@pytest.mark.parametrize("more", [0, 1], ids=["at the end", "in the middle"])
def test_a_hole_that_gets_one_producers_marker_is_a_loss_for_the_other_that_committed_there(
    data: Path, more: int
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "paid")
        till, desk = (Transactor(wire, name, version=1).init() for name in ("till", "desk"))
        till.write("paid", b"aborted")
        desk.write("paid", b"committed")
        till.end(False)
        desk.end(True)
        for _ in range(more):
            Transactor(wire, "third", version=1).init().write("paid", b"open")
    for kind in (control.COMMIT, control.ABORT):
        for place in reversed(markers(data, kind)):
            take_out(place)
    for _ in range(2):
        wrong = checked(data).wrong
        assert "transaction-unknown" not in [each.kind for each in wrong]
        (lost,) = [each for each in wrong if each.kind == "commit-marker-lost"]
        assert lost.severity is Severity.LOSS
        assert (lost.first_offset, lost.last_offset) == (1, 1)
        repair(data)


PAID = ("paid", 0)


def decided(epoch: int, state: State, version: int, *partitions: tuple[str, int]) -> Transaction:
    places = frozenset(partitions)
    return Transaction("till", 9, epoch, state=state, partitions=places, version=version)


def test_a_decision_speaks_of_the_epoch_before_and_of_its_own_partitions() -> None:
    decisions = Decisions()
    decisions.note(decided(4, State.PREPARE_COMMIT, 2, PAID))
    decisions.note(decided(6, State.PREPARE_ABORT, 2, PAID))
    decisions.note(decided(8, State.COMPLETE_COMMIT, 2))
    found = [epoch for epoch in range(10) if decisions.committed(9, epoch, PAID)]
    assert found == [3, 7]
    assert not decisions.committed(9, 3, ("other", 0))
    assert not decisions.committed(8, 3, PAID)


def test_an_epoch_that_a_client_of_version_1_has_used_proves_nothing() -> None:
    decisions = Decisions()
    decisions.note(decided(3, State.COMPLETE_ABORT, 1))
    decisions.note(decided(4, State.PREPARE_COMMIT, 2, PAID))
    assert not decisions.committed(9, 3, PAID)
