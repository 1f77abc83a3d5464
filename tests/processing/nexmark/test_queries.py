"""Nexmark's queries, beside DuckDB on the published SQL over the same events: live, by replay, after a kill.

Topics have several partitions, and times are in disorder. `make test` runs the functions of all queries in
one batch and starts one as a stream; `make soak` starts all, over ten times as many events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bench.nexmark import check, generate
from bench.nexmark.events import Plan
from bench.nexmark.reference import SQL, Reference
from headwater.pipelines.context import Context
from headwater.testing.rehearsal import Rehearsal
from tests.processing.killing import one_partition

SOAK = bool(os.environ.get("HEADWATER_SOAK"))
EVENTS = 60_000 if SOAK else 6_000
PLAN = Plan(EVENTS, seed=7, rate=150, disorder=300)
"""Forty seconds of auctions; an event comes up to two seconds after later ones."""
LIVE = tuple(SQL) if SOAK else ("q5",)
"""A hopping window; streams of joins and other windows are in the folders beside this one."""


@pytest.fixture
def site(headwater_test: Rehearsal) -> Iterator[Rehearsal]:
    generate.create(headwater_test.bootstrap, partitions=3)
    check.views()
    with one_partition(headwater_test):
        yield headwater_test


@pytest.mark.timeout(900)
def test_live_and_after_a_kill_a_query_is_what_the_published_sql_gives(
    site: Rehearsal, tmp_path: Path
) -> None:
    write(site, 0, EVENTS // 2)
    for query in LIVE:
        check.run(site, query, tmp_path)
        site.stop()  # a query that only waits costs as well
    write(site, EVENTS // 2, EVENTS)
    for query in LIVE:
        check.run(site, query, tmp_path)
        site.kill()  # its second batch comes once more
        site.stop()
    must_be_right(site, LIVE, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_replay_in_small_batches_is_what_the_published_sql_gives(
    site: Rehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(site, 0, EVENTS)
    small = partial(Context, batch_records_max=EVENTS // 2)
    monkeypatch.setattr("headwater.testing.rehearsal.Context", small)
    for query in SQL:
        check.run(site, query, tmp_path)
        assert len(site.query(check.name_of(query)).recentProgress) > 1
        site.stop()
    must_be_right(site, tuple(SQL), tmp_path)


@pytest.mark.timeout(900)
def test_the_function_of_a_query_gives_the_same_in_one_batch(
    site: Rehearsal, tmp_path: Path
) -> None:
    write(site, 0, EVENTS)
    reference = Reference(site.bootstrap, tmp_path)
    found = {
        query: check.compared(query, site.batch(check.name_of(query)), reference.all_rows(query))
        for query in SQL
        if query not in check.OF_WINNERS
    }
    reference.close()
    assert {query: said for query, said in found.items() if said} == {}


def write(site: Rehearsal, first: int, end: int) -> None:
    generate.write(site.bootstrap, replace(PLAN, events=end), first)


def must_be_right(site: Rehearsal, queries: tuple[str, ...], folder: Path) -> None:
    reference = Reference(site.bootstrap, folder)
    found = {query: check.wrong(site, query, reference) for query in queries}
    reference.close()
    assert {query: said for query, said in found.items() if said} == {}
