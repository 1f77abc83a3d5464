"""Where a batch ends changes nothing: the same changes leave the same rows and the same dead letters."""

from __future__ import annotations

import itertools
import math
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.targets import shape
from headwater.views.targets.contract import Kind, Shape, Target
from headwater.views.targets.registry import target_for
from tests.views.core.batching import batches, followed
from tests.views.opensearch.server import search_server
from tests.views.redis.server import RedisServer, redis_server

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("total", pa.float64())])
FLOATS = pa.schema([("id", pa.float64()), ("name", pa.string()), ("total", pa.float64())])
IDS = st.sampled_from([1, 2, 3])
FLOAT_IDS = st.sampled_from([0.0, -0.0, 1.0, math.nan])
NAMES = st.sampled_from(["a", "b", None, "much too long for the rule", "nul \0 inside"])
TOTALS = st.sampled_from([1.0, 2.5, -0.0, math.nan, math.inf, None])
EXAMPLES = int(os.environ.get("HEADWATER_SEEDS", "4"))
_numbers = itertools.count(1)

Make = Callable[[Shape], Target]
"""Another, empty store at each call."""


def changes(ids: Any) -> Any:
    return st.lists(st.tuples(ids, NAMES, TOTALS, st.booleans()), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with redis_server() as running:
        server: RedisServer = running
        yield server.url


@pytest.fixture(scope="module")
def search_url() -> Iterator[str]:
    with search_server() as (address, _):
        yield address


@pytest.fixture
def database(server: Any) -> str:
    name = f"batching{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return str(server.url(name))


RULED = "name {text} NOT NULL CHECK (length(name) < 10), total {number} CHECK (total < 2)"


def _sqlite_with_rules(path: str) -> None:
    rules = RULED.format(text="TEXT", number="REAL")
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE customers (id REAL PRIMARY KEY, {rules})")
    connection.close()


def _duckdb_with_rules(path: str) -> None:
    rules = RULED.format(text="VARCHAR", number="DOUBLE")
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE customers (id DOUBLE PRIMARY KEY, {rules})")


@pytest.fixture(
    params=["sqlite", "sqlite with rules", "duckdb", "duckdb with rules", "delta", "search", "redis",
            "timeline", "opensearch", "postgres", "postgres with rules"]
)  # fmt: skip
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    what, _, ruled = request.param.partition(" ")

    def embedded(given: Shape) -> Target:
        folder = tempfile.mkdtemp(dir=tmp_path)
        if ruled and what == "sqlite":
            _sqlite_with_rules(f"{folder}/x")
        if ruled and what == "duckdb":
            _duckdb_with_rules(f"{folder}/x")
        return target_for(f"{what}:{folder}/x", given)

    def served(given: Shape) -> Target:
        name = f"v{next(_numbers)}"
        options = {"table": name, "staging": str(tmp_path / "staging")}
        if what == "timeline":
            options |= {"form": "timeline", "set": "id", "member": "name", "score": "total"}
        url = request.getfixturevalue(
            {"opensearch": "search_url", "postgres": "database"}.get(what, "redis_url")
        )
        if ruled:
            rules = RULED.format(text="text", number="double precision")
            rules = rules.replace("CHECK", "CONSTRAINT short CHECK", 1)
            rules = rules.replace(" CHECK (total", " CONSTRAINT small CHECK (total")
            with psycopg.connect(url) as connection:
                statement = f"CREATE TABLE {name} (id double precision PRIMARY KEY, {rules})"
                connection.execute(statement.encode())
        key = ("id", "name") if what == "timeline" else given.key
        return target_for(url, shape(view=name, schema=given.schema, key=key, options=options))

    return embedded if what in ("sqlite", "duckdb", "delta", "search") else served


@pytest.mark.parametrize(("schema", "ids"), [(FLOATS, FLOAT_IDS)], ids=["float keys"])
def test_the_same_changes_leave_the_same_rows_and_letters_wherever_batches_end(
    make: Make, schema: pa.Schema, ids: Any
):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
    )
    @given(changes(ids), st.lists(st.integers(1, 5), max_size=2))
    def check(given_changes: list[Any], cuts: list[int]) -> None:
        fit = shape(Kind.UPSERT, schema=schema)
        one_by_one = followed(make(fit), [[each] for each in given_changes])
        assert followed(make(fit), [given_changes]) == one_by_one
        assert followed(make(fit), batches(given_changes, cuts)) == one_by_one

    check()


def test_a_refused_row_leaves_what_was_before_it(make: Make):
    """k=1.0, then k=NaN: whether or not they are of one batch."""
    fit = shape(Kind.UPSERT, schema=FLOATS)
    one = (7.0, "a", 1.0, False)
    other = (7.0, "a", math.nan, False)
    together = followed(make(fit), [[one, other]])
    apart = followed(make(fit), [[one], [other]])
    assert together == apart
    if together.letters:
        assert len(together.rows) == 1 and "1.0" in together.rows[0]


def test_a_row_that_could_not_come_can_go(make: Make):
    """A delete says the row as it was, and only its key is looked at."""
    fit = shape(Kind.UPSERT, schema=FLOATS)
    found = followed(make(fit), [[(7.0, "a", 1.0, False)], [(7.0, "a", math.nan, True)]])
    assert (found.rows, found.letters) == ([], [])
