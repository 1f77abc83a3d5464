"""Whether headwater's Nexmark queries are right: the user's views in a rehearsal, beside `reference`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.nexmark.reference import Reference, Row, difference, plain, reads_of
from headwater.pipelines import loader
from headwater.pipelines.declarations import View
from headwater.testing.rehearsal import Rehearsal

QUERIES = Path(__file__).parents[2] / "examples" / "nexmark"
OF_WINNERS = ("q4", "q6")
"""They read what q9 has found."""


def name_of(query: str) -> str:
    return f"nexmark_{query}"


def views() -> dict[str, View]:
    """What the example declares, by the number of the query."""
    found = loader.load_again([QUERIES])
    return {view.name.removeprefix("nexmark_"): view for view in found}


def run(site: Rehearsal, query: str, folder: Path) -> None:
    """Let a query do all there is to do; start it where it does not run."""
    if query in OF_WINNERS:
        site.run(name_of("q9"))
    site.run(name_of(query), to=f"parquet:{folder / query}" if query == "q10" else None)


def wrong(site: Rehearsal, query: str, reference: Reference) -> str:
    """In what a query's rows differ from what they must be, in a line; empty where they do not."""
    return compared(query, site.rows(name_of(query)), reference.rows(query))


def compared(query: str, rows: Iterable[Mapping[str, object]], expected: Counter[Row]) -> str:
    if not expected:
        return "nothing is expected, so nothing is compared"
    return difference(reads_of(rows) if query == "q12" else plain(rows), expected)
