"""A segment that somebody has removed: what was aborted by a marker in it stays hidden."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.broker.inspection import markers
from headwater.broker.inspection.decisions import Decisions
from headwater.broker.inspection.facts import Began, Facts, Place, Promise
from headwater.broker.transactions.transaction import State, Transaction
from tests.broker.inspection.test_lost_commits import PATTERN, served, written
from tests.broker.inspection.world import checked, repair
from tests.broker.serving import create, serving

SUFFIXES = {"the records": (".log",), "all of it": (".log", ".index", ".timeindex", ".txnindex")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[bytes]]:
    data = tmp_path_factory.mktemp("whole") / "data"
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "paid", internal_segment_bytes=250, retention_ms=-1)
        return data, written(wire, 2, PATTERN)


@pytest.fixture
def data(whole: tuple[Path, set[bytes]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole[0], tmp_path / "data"))


def segments(data: Path) -> list[Path]:
    return [each for each in sorted((data / "paid-0").glob("*.log")) if each.stat().st_size]


def remove(data: Path, number: int, what: str) -> None:
    path = segments(data)[number]
    for suffix in SUFFIXES[what]:
        path.with_suffix(suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("what", SUFFIXES)
@pytest.mark.parametrize("number", range(3, 8))
def test_what_was_aborted_stays_hidden_at_every_start(
    data: Path, whole: tuple[Path, set[bytes]], number: int, what: str
) -> None:
    remove(data, number, what)
    for _ in range(2):
        assert served(data) <= whole[1]
    assert "aborted-wrong" not in {each.kind for each in checked(data).wrong}


@pytest.mark.parametrize("number", [3, 4, 5])
def test_it_stays_hidden_where_a_list_of_another_segment_is_lost_later(
    data: Path, whole: tuple[Path, set[bytes]], number: int
) -> None:
    remove(data, number, "the records")
    assert served(data) <= whole[1]
    lists = sorted((data / "paid-0").glob("*.txnindex"))
    before = segments(data)[number - 1].stem
    other = next(each for each in reversed(lists) if each.stem > before)
    other.unlink()
    assert served(data) <= whole[1]


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("what", SUFFIXES)
@pytest.mark.parametrize("number", [3, 4, 5])
def test_what_was_aborted_stays_hidden_after_a_repair(
    data: Path, whole: tuple[Path, set[bytes]], number: int, what: str, is_started: bool
) -> None:
    remove(data, number, what)
    if is_started:
        served(data)
    for _ in range(2):
        repair(data)
        assert served(data) <= whole[1]


def test_a_marker_speaks_only_for_transactions_that_have_all_committed() -> None:
    """Two in a row without a marker between them: the first has committed, of the second nobody knows."""
    decisions = Decisions()
    decisions.note(Transaction("till", 9, 4, state=State.COMPLETE_COMMIT, version=2))
    place = Place("paid", 0, Path("data"), Path("data/paid-0"))
    facts = Facts(place, Promise(9, True, True), 0, decisions=decisions)
    facts.began[9] = Began(0, 0, {3}, 1)
    assert list(markers._committed(facts)) == [9]
    facts.began[9] = Began(0, 0, {3, 4}, 5)
    assert list(markers._committed(facts)) == []
