"""The page of servers and versions, with what of the capture contract is run on each; called by `generate`.

From the table of tests/capture/contract, so that it says what is run and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tests.capture.contract import (
    test_contract,
    test_failover,
    test_keys,
    test_log,
    test_moved_rows,
)
from tests.capture.contract.columns import WithColumns
from tests.capture.contract.mongodb import VALUES, MongoDB
from tests.capture.contract.mysql import MariaDB10
from tests.capture.contract.servers import SERVERS, Entry

HEAD = """
# Servers and versions

Capture is one contract for all servers and versions below (`tests/capture/contract`). Those under *test*
are held to it by `make test-wide` and so in CI, the others when `make soak` is run. Each is a real server; a
fixture fetches what Debian 12 does not have. Not to be had for the tests, so untried: MySQL 8.4, MongoDB
7 and later, sharded clusters.

"""


def page() -> str:
    rows = [
        f"| {entry.name} | {'test' if entry.quick else 'soak'} | {_types(entry)} |"
        for entry in SERVERS
    ]
    clauses = [_clause(name, function) for name, function in _tests()]
    return "\n".join(
        [
            HEAD.strip("\n").join(("\n", "\n")),
            "| server | run by | types of columns or values, at their extremes |",
            "|---|---|---|",
            *rows,
            "",
            "| what holds | PostgreSQL | MySQL, MariaDB | MongoDB |",
            "|---|---|---|---|",
            *clauses,
            "",
            "A kind of database that cannot do what a line speaks of has –. *soak*: only in `make soak`.",
            "PostgreSQL's standbys that take over: `tests/capture/postgres/test_failover.py`.",
            "",
        ]
    )


def _types(entry: Entry) -> int:
    return len(entry.subject.types) if issubclass(entry.subject, WithColumns) else len(VALUES)


def _tests() -> Iterator[tuple[str, object]]:
    for module in (test_contract, test_keys, test_moved_rows, test_log, test_failover):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and function.__module__ == module.__name__:
                yield name, function


def _clause(name: str, function: object) -> str:
    marks = getattr(function, "pytestmark", [])
    needed = {ability for mark in marks if mark.name == "needs" for ability in mark.args}
    module = inspect.getmodule(function)
    marks = [*marks, *getattr(module, "pytestmark", [])]
    how = "soak" if any(mark.name == "soak" for mark in marks) else "yes"
    kinds = (
        next(e.subject for e in SERVERS if e.name.startswith("PostgreSQL")),
        MariaDB10,
        MongoDB,
    )
    cells = [how if needed <= kind.can else "–" for kind in kinds]
    if module is test_failover:
        cells = ["–", "soak", "–"] if "replica_that" in name else ["–", "–", "soak"]
    sentence = name.removeprefix("test_").replace("_", " ")
    return f"| {sentence} | {' | '.join(cells)} |"
