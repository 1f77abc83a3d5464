"""Every target keeps every value as it was, or refuses its row in words and keeps the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from headwater.testing import values
from headwater.testing.values import Column, exact
from headwater.views.targets.contract import Kind, Shape
from tests.values import known
from tests.values.places import KEYS, PLACES
from tests.values.stores import Make, Outcome, Stores

pytestmark = pytest.mark.timeout(900)
OURS_IN_SOME = (
    "ctid", "xmin", "tableoid", "x" * 63 + "y", "x" * 63 + "z", "current", "valid_from", "valid_to",
    "_headwater", "a`b",
)  # fmt: skip
"""Names that some store keeps for itself, cuts or cannot say; the others every store must have."""
KINDS = (Kind.UPSERT, Kind.APPEND, Kind.HISTORY)


@pytest.fixture(scope="module", params=[*PLACES])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Make]]:
    scheme: str = request.param
    with PLACES[scheme](scheme, tmp_path_factory.mktemp("place")) as make:
        yield scheme, make


def kinds_of(make: Make) -> list[Kind]:
    target = make(Shape("probe", pa.schema([(values.ID, pa.int64())]), (values.ID,)))
    return [kind for kind in KINDS if kind in target.kinds]


def cells(columns: Sequence[Column]) -> list[known.Cell]:
    """Which value each of `values.rows` has."""
    found: list[Any] = [(each.name, value) for each in columns for value in exact(each.values)]
    return [*found, ("nothing", None)]


def check(scheme: str, columns: Sequence[Column], outcome: Outcome) -> None:
    owner = cells(columns)
    assert len(outcome.equal) + len(outcome.refused) + len(outcome.wrong) == len(owner)
    known.check(scheme, {owner[n]: why for n, why in outcome.wrong.items()})


def test_every_value_is_kept_or_refused_in_words(place: tuple[str, Make]) -> None:
    scheme, make = place
    for kind in kinds_of(make):
        outcome = Stores(make, kind).through(values.rows())
        check(scheme, values.COLUMNS, outcome)
        assert len(outcome.equal) > 200, (kind, outcome.refused)


def test_a_megabyte_in_one_value_is_kept_or_refused_in_words(place: tuple[str, Make]) -> None:
    scheme, make = place
    outcome = Stores(make, Kind.UPSERT).through(values.rows(values.LARGE))
    assert outcome.wrong == {}, scheme


@pytest.mark.soak
def test_decimals_of_every_precision_are_kept(place: tuple[str, Make]) -> None:
    _, make = place
    columns = values.all_decimals()
    for kind in kinds_of(make):
        outcome = Stores(make, kind).through(values.rows(columns))
        assert (outcome.wrong, outcome.refused) == ({}, {}), kind


def named(names: Sequence[str]) -> pa.Table:
    columns = {name: pa.array(["a", None, "é\n"]) for name in names}
    return pa.table({values.ID: pa.array([1, 2, 3], pa.int64()), **columns})


def test_columns_are_called_anything_or_the_name_is_refused(place: tuple[str, Make]) -> None:
    scheme, make = place
    usual = [name for name in values.NAMES if name not in OURS_IN_SOME]
    for kind in kinds_of(make):
        stores = Stores(make, kind)
        odd = [[name] for name in (*OURS_IN_SOME, values.EMPTY_NAME, *values.MARKS)]
        kept = stores.through(named(usual))
        assert len(kept.equal) == 3, (scheme, kind, kept)
        for names in [*odd, list(values.SAME_BUT_CASE)]:
            outcome = stores.through(named(names))
            assert outcome.wrong == {}, (scheme, kind, names, outcome.wrong)


@pytest.mark.parametrize("name", KEYS)
def test_every_value_is_a_key_of_its_own_or_refused(place: tuple[str, Make], name: str) -> None:
    scheme, make = place
    found = values.column(name).values
    first = {value: number for number, value in reversed(list(enumerate(exact(found))))}
    keys = found.take(pa.array(sorted(first.values())))
    rows = pa.table({values.ID: pa.array(range(len(keys)), pa.int64()), name: keys})
    outcome = Stores(make, Kind.UPSERT).through(rows, (name,))
    assert outcome.wrong == {}, (scheme, outcome.wrong)
    assert outcome.equal, (scheme, outcome.refused)
