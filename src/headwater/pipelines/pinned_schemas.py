"""The schemas that a query reads its topics by, kept beside its state, which has these columns.

    NAME/schemas.json     {"table shop.orders": {"value": 8, "key": 3, "before": [7], "looked_at": 9}}
    NAME/evolution.json   {"schemas": the same, "columns": {"id": "bigint"}, "widened": true}
                          while the query is being brought to other schemas (`evolution`)

`value` and `key` are ids. `before`: schemas whose columns come before those of `value`, in this order; so a
column keeps its place whatever comes besides. `looked_at`: the latest schema, where it was found to change
nothing for the query, or was gone on at without its columns. The schemas of the second file replace the first
when all that depends on it is done; where it is there at a start, that is gone on with. `columns`: those of
the view then; `query`: a digest of it, where it is over tables; `widened`: its target may have them. Where
the folder is not on this machine, every start takes the latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater import atomic_file
from headwater.local_path import local_path
from headwater.schemas.values.header import Json

if TYPE_CHECKING:
    from headwater.schemas.values.codecs import Found

FILE, NEXT = "schemas.json", "evolution.json"


@dataclass
class Pins:
    """The schemas of one topic that a query reads by: of an earlier start, or the latest."""

    ids: dict[str, int] = field(default_factory=dict)
    before: tuple[int, ...] = ()
    looked_at: int = 0

    @classmethod
    def read(cls, said: Mapping[str, Json]) -> Pins:
        ids = {part: said[part] for part in ("value", "key") if part in said}
        return cls(ids, tuple(said.get("before", ())), said.get("looked_at", 0))

    def written(self) -> dict[str, Json]:
        more = {"before": list(self.before), "looked_at": self.looked_at}
        return {**self.ids, **{name: each for name, each in more.items() if each}}

    def found(self, url: str, topic: str, part: str) -> Found | None:
        from headwater.spark.source.values.query_schemas import lookup

        if part in self.ids:
            return lookup(url).by_id(self.ids[part])
        version = lookup(url).version(f"{topic}-{part}")
        if version is None:
            return None
        self.ids[part] = version.id
        return lookup(url).whole(version.id, version.schema)

    def earlier(self, url: str) -> list[Found]:
        """Those whose columns come first."""
        from headwater.spark.source.values.query_schemas import lookup

        found = [lookup(url).by_id(each) for each in self.before]
        return [each for each in found if each is not None]

    def passed(self, url: str, subject: str) -> list[int]:
        """The schemas whose records were read by `value`, without what they had besides: those after it, up
        to the one that was looked at; deleted ones too. RegistryError, BrokerUnreachable."""
        from headwater.spark.source.values.query_schemas import lookup

        if not self.looked_at:
            return []
        client, pinned, last = lookup(url).client, self.ids["value"], self.looked_at
        numbers = client.versions(subject, deleted=True)
        ids = [client.version(subject, each, deleted=True).id for each in numbers]
        begin = ids.index(pinned) + 1 if pinned in ids else 0
        end = len(ids) - ids[::-1].index(last) if last in ids else len(ids)
        return list(dict.fromkeys([*(each for each in ids[begin:end] if each != pinned), last]))

    def moved_to(self, latest: int) -> Pins:
        if latest == self.ids["value"]:
            return self
        return Pins({**self.ids, "value": latest}, (*self.before, self.ids["value"]))


@dataclass(frozen=True)
class Evolving:
    """To which schemas and columns a query is being brought."""

    pins: Mapping[str, Pins]
    columns: Mapping[str, str]
    widened: bool = False
    query: str = ""

    @classmethod
    def read(cls, said: Mapping[str, Json]) -> Evolving:
        pins, query = _pins(said["schemas"]), said.get("query", "")
        return cls(pins, said["columns"], said["widened"], query)

    def written(self) -> dict[str, Json]:
        said = {"columns": dict(self.columns), "widened": self.widened, "query": self.query}
        return {"schemas": _written(self.pins), **said}


class KeptPins:
    """Of one query."""

    def __init__(self, checkpoint: str | None) -> None:
        folder = None if checkpoint is None else local_path(checkpoint)
        self._path = None if folder is None else folder / FILE
        self._next = None if folder is None else folder / NEXT
        said = _read(self._next)
        self.evolving = None if said is None else Evolving.read(said)
        """Where the query is being brought to other schemas."""
        self.all = dict(self.evolving.pins) if self.evolving else _pins(_read(self._path) or {})

    @property
    def are_kept(self) -> bool:
        return self._path is not None

    def of(self, name: str) -> Pins:
        return self.all.get(name) or Pins()

    def keep(self, name: str, pins: Pins) -> None:
        if self._path is None or self.all.get(name) == pins or not pins.ids:
            return
        self.all[name] = pins
        if self.evolving is None:
            self._write(self._path, _written(self.all))
        else:
            self._evolve(replace(self.evolving, pins=self.all))

    def look_no_more(self, latest: Mapping[str, int]) -> None:
        """The latest schemas, name of the input → id, change nothing for the query."""
        self.all |= {name: replace(self.all[name], looked_at=each) for name, each in latest.items()}
        self._write(self._path, _written(self.all))

    def begin(self, pins: Mapping[str, Pins], columns: Mapping[str, str], query: str) -> None:
        """From now on the query is to be at these; every start goes on with it until `finish`."""
        self._evolve(Evolving({**self.all, **pins}, columns, query=query))

    def widen(self) -> None:
        """The query's target is about to get the columns."""
        assert self.evolving is not None
        self._evolve(replace(self.evolving, widened=True))

    def leave(self) -> None:
        """Let the query be at the schemas as before; not where its target may have the columns."""
        assert self._next is not None
        if self.evolving is not None and not self.evolving.widened:
            self._next.unlink()
            atomic_file.sync_folder(self._next.parent)

    def finish(self) -> None:
        """The query's target has the columns of the other schemas."""
        if self.evolving is not None:
            assert self._next is not None
            self._write(self._path, _written(self.evolving.pins))
            self._next.unlink()
            atomic_file.sync_folder(self._next.parent)

    def _evolve(self, evolving: Evolving) -> None:
        self.evolving = evolving
        self._write(self._next, evolving.written())

    def _write(self, path: Path | None, said: Mapping[str, Json]) -> None:
        assert path is not None
        atomic_file.make_folder(path.parent)
        atomic_file.write(path, json.dumps(said, sort_keys=True) + "\n")


def _read(path: Path | None) -> dict[str, Json] | None:
    if path is None or not path.exists():
        return None
    said: dict[str, Json] = json.loads(path.read_text(encoding="utf-8"))
    return said


def _pins(said: Mapping[str, Json]) -> dict[str, Pins]:
    return {name: Pins.read(each) for name, each in said.items()}


def _written(pins: Mapping[str, Pins]) -> dict[str, Json]:
    return {name: each.written() for name, each in pins.items()}
