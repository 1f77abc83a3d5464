"""Where a view lives, as its store compares names: no two views may share a place. Pure.

Asked at three moments: when views are declared (two of one program, by `place_of`), when a target makes
its place (against what the store's book lists, by `must_be_free`), and when a folder becomes a view's.

A view's name takes more than itself: versions lie beside it (`NAME__v2`, `NAME:v2:…`, `NAME-v2`), so a
view must not be called as a version of another would be.

    store                names                                   versions
    SQLite, DuckDB       letters A to Z in either case are one    NAME__v2, and its indexes
    PostgreSQL           as written                              NAME__v2, and its indexes
    Redis                as written                              NAME:v2:…
    OpenSearch           as written                              NAME-v2
    folders              one inside another is a shared place    PATH/v2
    topics               as written
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headwater.local_path import local_path
from headwater.views.targets.contract import Misfit

RESERVED = "headwater_"
"""How the names begin that targets use for themselves: the book, what is staged."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _as_written(name: str) -> str:
    return name


def _lowered(name: str) -> str:
    """ASCII alone, as SQLite and DuckDB do it: Ä and ä are two names."""
    return name.translate(_LOWER)


@dataclass(frozen=True)
class Naming:
    """How a store compares names."""

    fold: Callable[[str], str] = _as_written
    version: str = ""
    """What follows a view's name in what its versions are called, as a pattern."""
    reserved: tuple[str, ...] = (RESERVED,)

    def clash(self, one: str, other: str) -> bool:
        one, other = self.fold(one), self.fold(other)
        return one == other or self._is_version(one, other) or self._is_version(other, one)

    def is_reserved(self, name: str) -> bool:
        return self.fold(name).startswith(self.reserved)

    def _is_version(self, one: str, other: str) -> bool:
        return bool(self.version and re.fullmatch(f"{re.escape(other)}{self.version}", one, re.S))


_TABLE = r"__v\d+(_current|_key)?"
PLAIN = Naming(reserved=())
SQLITE = Naming(_lowered, _TABLE, (RESERVED, "sqlite_"))
DUCKDB = Naming(_lowered, _TABLE)
POSTGRES = Naming(version=_TABLE)
REDIS = Naming(version=r":v\d+(:.*)?")
OPENSEARCH = Naming(version=r"-v\d+")
_NAMINGS = {
    "sqlite": SQLITE,
    "duckdb": DUCKDB,
    "postgresql": POSTGRES,
    "redis": REDIS,
    "opensearch": OPENSEARCH,
}
_FILES = ("sqlite", "duckdb")
_FOLDERS = ("delta", "search", "parquet")
_NOWHERE = ("memory", "console")
_SAME = {"postgres": "postgresql", "rediss": "redis"}
_PORTS: dict[str, int] = {"postgresql": 5432, "redis": 6379, "opensearch": 9200}


def must_be_free(name: str, where: str, taken: Iterable[tuple[str, str]], naming: Naming) -> None:
    """Misfit where the book of a store lists a place of another view that this name would touch.

    `taken`: view and place of every entry that is not of this view.
    """
    if naming.is_reserved(name):
        raise Misfit(
            f"names in {where} that begin with {' or '.join(naming.reserved)} are not for views, "
            f"and {name!r} does",
            hint="name another one with options={'table': …}",
        )
    for view, place in taken:
        if naming.clash(name, place):
            raise taken_by(view, place, where, name)


def must_be_alone(place: str, where: str, taken: Iterable[tuple[str, str]], naming: Naming) -> None:
    """Misfit where a view's place is another's too, of a time when nobody looked: who wrote which row?"""
    for view, other in taken:
        if naming.fold(place) == naming.fold(other):
            raise taken_by(view, other, where, place)


def taken_by(view: str, place: str, where: str, name: str) -> Misfit:
    also = "" if place == name else f", which {name!r} would be mixed with"
    return Misfit(
        f"{place!r} in {where} holds the view {view!r}{also}",
        hint="name another one with options={'table': …}",
    )


# ---- two views of one program -----------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """What a view's `to` and its options come to."""

    store: str
    where: str
    """The file, folder, server with its database, or topic."""
    name: str = ""
    """Inside of it."""

    def clashes(self, other: Place) -> bool:
        if self._is_path and other._is_path:
            return self._shares_path(other)
        if (self.store, self.where) != (other.store, other.where):
            return False
        return _NAMINGS.get(self.store, PLAIN).clash(self.name, other.name)

    @property
    def _is_path(self) -> bool:
        return self.store in _FILES or self.store in _FOLDERS

    def _shares_path(self, other: Place) -> bool:
        if self.where == other.where and self.store == other.store and self.store in _FILES:
            return _NAMINGS[self.store].clash(self.name, other.name)
        one, two = Path(self.where), Path(other.where)
        return one == two or one in two.parents or two in one.parents


def place_of(to: str, view: str, options: Mapping[str, str]) -> Place | None:
    """Where a view lives; None for what keeps nothing, or lies under the view's own name."""
    scheme, _, rest = to.partition(":")
    name = options.get("table", view)
    if scheme in _NOWHERE:
        return None
    if scheme == "topic":
        return Place(scheme, rest)
    if scheme == "function":
        return Place(scheme, _real(options["staging"])) if "staging" in options else None
    if scheme in _FILES:
        return Place(scheme, _real(rest), name)
    if scheme in _FOLDERS:
        inside = "table" in options and scheme != "parquet"
        return Place(scheme, _real(f"{rest}/{name}" if inside else rest))
    store = _SAME.get(scheme, scheme)
    if store.partition("+")[0] in ("opensearch", "elasticsearch"):
        store = "opensearch"
    return Place(store, _server(to, store), name)


def _real(path: str) -> str:
    """The same for every way to write it: links are followed. What has a scheme stays as it is."""
    found = local_path(path)
    return path if found is None else str(found)


def _server(to: str, store: str) -> str:
    """A server and its database without who logs in; PostgreSQL's users may have schemas of their own."""
    try:
        parts = urlsplit(to)
        port = parts.port or _PORTS.get(store, 0)
    except ValueError:
        return to
    if not parts.hostname and not parts.path:
        return to
    user = parts.username or "" if store == "postgresql" else ""
    path = parts.path.strip("/") or ("0" if store == "redis" else "")
    return f"{user}@{(parts.hostname or '').lower()}:{port}/{path}?{parts.query}"
