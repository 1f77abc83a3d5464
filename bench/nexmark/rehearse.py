"""Every query on few events, beside DuckDB: the benchmark's first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.nexmark import check, generate
from bench.nexmark.events import Plan
from bench.nexmark.reference import Reference
from headwater.testing.clock import ManualClock
from headwater.testing.embedded_broker import broker
from headwater.testing.plugin import spark_for_tests
from headwater.testing.rehearsal import Rehearsal

PLAN = Plan(6_000, seed=7, rate=150, disorder=300)
"""Forty seconds of auctions; an event comes up to two seconds after later ones."""


def wrong(queries: Sequence[str], home: Path, parts: int = 2) -> dict[str, str]:
    """The queries whose result is not what it must be, and how it differs; the events come in parts."""
    folder = home / "rehearsal"
    folder.mkdir()
    with spark_for_tests(folder, {}) as spark, broker() as kafka:
        site = Rehearsal(spark, kafka, ManualClock(), folder)
        try:
            return _wrong(site, queries, folder, parts)
        finally:
            site.close()


def _wrong(site: Rehearsal, queries: Sequence[str], folder: Path, parts: int) -> dict[str, str]:
    generate.create(site.bootstrap, partitions=3)
    check.views()
    for first in range(0, PLAN.events, PLAN.events // parts):
        generate.write(site.bootstrap, replace(PLAN, events=first + PLAN.events // parts), first)
        for query in queries:
            check.run(site, query, folder)
            site.stop()  # a query that only waits costs as well
    reference = Reference(site.bootstrap, folder)
    found = {query: check.wrong(site, query, reference) for query in queries}
    reference.close()
    return {query: said for query, said in found.items() if said}
