"""What can be asked of a view's rows, whatever store they are in.

Everything here blocks and is called from threads. A position is that of the moment of the rows beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.client.errors import BadRequest, NotThere, RequestRefused
from headwater.client.position import Position
from headwater.errors import missing_package
from headwater.secrets import expand
from headwater.views.targets.registry import scheme_of

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View

_READERS = {
    "sqlite": "headwater.pipelines.view_rows.sql:SqliteRows",
    "postgresql": "headwater.pipelines.view_rows.postgres:PostgresRows",
    "postgres": "headwater.pipelines.view_rows.postgres:PostgresRows",
    "duckdb": "headwater.pipelines.view_rows.duckdb:DuckdbRows",
    "search": "headwater.pipelines.view_rows.documents:IndexRows",
    "opensearch+http": "headwater.pipelines.view_rows.documents:ServerRows",
    "opensearch+https": "headwater.pipelines.view_rows.documents:ServerRows",
    "elasticsearch+http": "headwater.pipelines.view_rows.documents:ServerRows",
    "elasticsearch+https": "headwater.pipelines.view_rows.documents:ServerRows",
    "redis": "headwater.pipelines.view_rows.arrow:RedisRows",
    "rediss": "headwater.pipelines.view_rows.arrow:RedisRows",
    "delta": "headwater.pipelines.view_rows.arrow:DeltaRows",
}


class Row(NamedTuple):
    """`fields` as JSON has them."""

    key: str
    fields: dict[str, Any]


class Rows(ABC):
    """The rows of one view, in the version that readers see."""

    def __init__(self, view: View) -> None:
        self.view = view
        if not view.key:
            raise RequestRefused(
                f"the view {view.name!r} has no key, so its rows cannot be told apart",
                hint=f"name one: @hw.view({view.name!r}, key=…)",
            )

    @property
    def address(self) -> str:
        """Of the store, with the secrets that it names: for a connection, not for a message."""
        return expand(self.view.to)

    @abstractmethod
    def get(self, key: str) -> tuple[Position | None, Row | None]:
        """The row of a key."""

    @abstractmethod
    def page(self, after: str | None, limit: int) -> tuple[Position | None, list[Row]]:
        """So many rows in the order of their keys, those behind the key `after`."""

    @abstractmethod
    def all(self) -> AbstractContextManager[tuple[Position | None, Iterator[Row]]]:
        """Every row once, of one moment."""

    def search(
        self, words: str, limit: int, offset: int
    ) -> tuple[Position | None, list[dict[str, Any]]]:
        """Those that fit best, each with its `_score`."""
        raise RequestRefused(
            f"the view {self.view.name!r} is in {scheme_of(self.view.to)}:, which has no search",
            hint="keep it in search:FOLDER or in OpenSearch, or ask for rows by key",
        )

    # ---- for those who implement it -----------------------------------------------------------------

    @property
    def is_history(self) -> bool:
        """Then the row of a key is the one that holds now."""
        return self.view.kind == "history"

    @property
    def table(self) -> str:
        return self.view.options.get("table", self.view.name)

    def not_yet(self) -> NotThere:
        return NotThere(
            f"the view {self.view.name!r} has no rows yet: nothing has filled it",
            hint="headwater run builds its first version",
        )

    def no_key(self, key: str) -> BadRequest:
        columns = ":".join(self.view.key)
        return BadRequest(f"{key[:100]!r} is no key of {self.view.name}", hint=f"it is {columns}")


def rows_of(view: View) -> Rows:
    """Where a view's rows can be read. Raises RequestRefused where they cannot."""
    reader = _READERS.get(scheme_of(view.to)) if ":" in view.to and view.effect is None else None
    if reader is None:
        raise RequestRefused(
            f"the view {view.name!r} goes to {view.where}, whose rows cannot be read here",
            hint=f"they can be in {', '.join(f'{name}:' for name in _READERS)}",
        )
    module, _, name = reader.partition(":")
    try:
        made: Rows = getattr(import_module(module), name)(view)
    except ModuleNotFoundError as error:
        raise RequestRefused(
            f"{view.where} needs the package {missing_package(error)}, which is not installed",
            hint="pip install 'headwater[all]'",
        ) from None
    return made
