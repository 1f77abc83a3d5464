"""Every target of the registry, each in a place of its own: how the tests of this folder make one.

A target that is added to the registry has no entry here, and `test_coverage` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headwater.views.targets.contract import Shape, Target
from headwater.views.targets.registry import target_for
from tests.capture.postgres.server import postgres
from tests.values.stores import Make
from tests.views.opensearch.server import search_server
from tests.views.redis.server import redis_server

Place = Callable[[Path], "object"]


@contextmanager
def _file(scheme: str, folder: Path) -> Iterator[Make]:
    yield lambda shape: target_for(f"{scheme}:{folder / 'views'}.{scheme}", shape)


@contextmanager
def _folder(scheme: str, folder: Path) -> Iterator[Make]:
    yield lambda shape: target_for(f"{scheme}:{folder / shape.view}", shape)


@contextmanager
def _postgres(scheme: str, folder: Path) -> Iterator[Make]:
    with postgres({"wal_level": "replica"}) as server:
        server.execute("CREATE DATABASE hurting")
        url = server.url("hurting")
        yield lambda shape: target_for(url, shape)


@contextmanager
def _redis(scheme: str, folder: Path) -> Iterator[Make]:
    with redis_server(()) as server:
        yield lambda shape: target_for(server.url, shape)


@contextmanager
def _redis_json(scheme: str, folder: Path) -> Iterator[Make]:
    with redis_server(()) as server:
        yield lambda shape: target_for(
            server.url, replace(shape, options={"form": "json"} if shape.key else {})
        )


@contextmanager
def _opensearch(scheme: str, folder: Path) -> Iterator[Make]:
    def make(shape: Shape) -> Target:
        return target_for(url, replace(shape, options={"staging": str(folder)}))

    with search_server() as (url, _):
        yield make


PLACES = {
    "sqlite": _file,
    "duckdb": _file,
    "delta": _folder,
    "search": _folder,
    "postgresql": _postgres,
    "redis": _redis,
    "redis as json": _redis_json,
    "opensearch+http": _opensearch,
}
OTHER_NAMES = {
    "postgres": "postgresql",
    "rediss": "redis",
    "opensearch+https": "opensearch+http",
    "elasticsearch+http": "opensearch+http",
    "elasticsearch+https": "opensearch+http",
}
"""Schemes of the same target, and by which of the above they are tried."""

KEYS = (
    "truth",
    "large",
    "single",
    "double",
    "decimal_38_18",
    "day",
    "moment",
    "local",
    "text",
    "blob",
)
"""Columns whose values are tried as keys."""
