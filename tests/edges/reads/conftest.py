"""Stores of each kind, with the views of one test in each; PostgreSQL and Redis run once for the folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.pipelines.declarations import View
from headwater.testing.targets import Writer, shape
from headwater.views.targets.contract import Kind
from headwater.views.targets.registry import target_for
from tests.capture.postgres.server import postgres
from tests.views.opensearch.server import search_server
from tests.views.redis.server import redis_server

KINDS = ["sqlite", "duckdb", "search", "delta", "redis", "redis json", "opensearch", "postgresql"]
Made = tuple[View, Writer]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """What to=… is for a store of this kind; started when first asked for."""
    running: dict[str, str] = {}
    with _Servers() as servers:

        def address(kind: str) -> str:
            folder = tmp_path_factory.mktemp("store")
            paths = {"sqlite": "v.db", "duckdb": "v.duckdb", "search": "index", "delta": "table"}
            if kind in paths:
                return f"{kind}:{folder / paths[kind]}"
            name = kind.split()[0]
            if name not in running:
                running[name] = servers.start(name)
            return running[name]

        yield address


class _Servers:
    def __init__(self) -> None:
        self._open: list = []

    def __enter__(self) -> _Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            each.__exit__(None, None, None)

    def start(self, name: str) -> str:
        made = {"postgresql": postgres, "redis": redis_server, "opensearch": search_server}[name]
        manager = made({"wal_level": "replica"}) if name == "postgresql" else made()
        self._open.append(manager)
        server = manager.__enter__()
        if name == "opensearch":
            return str(server[0])
        return str(server.url if name == "redis" else server.url("postgres"))


@pytest.fixture
def make(addresses: Callable[[str], str]) -> Callable[..., Made]:
    """A view of customers in a store, and who writes to it."""

    def made(store: str, **more) -> Made:
        name = f"customers{next(_numbers)}"
        options = {"form": "json"} if store == "redis json" else {}
        given = shape(**{"view": name, "options": options, **more})
        view = View(
            name,
            lambda: None,
            addresses(store),
            given.key,
            options=dict(given.options),
            kind="" if given.kind is Kind.UPSERT else given.kind.value,
        )
        return view, Writer(target_for(view.to, given))

    return made


@pytest.fixture
def pipelines(tmp_path: Path) -> Callable[..., Path]:
    """A project whose pipeline file declares these views; returns its headwater.toml."""

    def written(*views: View) -> Path:
        lines = ["import headwater as hw"]
        for view in views:
            key = list(view.key) or None
            lines.append(f"@hw.view({view.name!r}, key={key!r}, to={view.to!r})")
            lines.append(f"def f{len(lines)}():\n    raise AssertionError('no query is run here')")
        (tmp_path / "pipelines").mkdir()
        (tmp_path / "pipelines" / "views.py").write_text("\n".join(lines) + "\n")
        (tmp_path / "headwater.toml").write_text("")
        return tmp_path / "headwater.toml"

    return written
