"""How a row lies in Redis: as a hash, as JSON, in a sorted set, in a stream. Called by the target.

    hash       PLACE + KEY: a hash with a field for each column that is not null (option form, the default)
    json       PLACE + KEY: a string, the row as a JSON object
    timeline   PLACE + SET: a sorted set; options set, member and score name the columns. A score is a
               number that a double holds exactly; of a timestamp, its microseconds since 1970
    stream     PLACE: a stream, for views without a key

Rows are staged under keys of their own, which the commit renames (hash, json), or as entries of a list that
the commit reads (timeline, stream). Entries of hash and json are `+KEY`, or `-KEY` for a deleted row.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.contract import DELETED, Kind, Misfit, Shape
from headwater.views.targets.json_rows import documents, from_objects
from headwater.views.targets.redis.protocol import bytes_of, hashes, strings
from headwater.views.targets.texts import from_texts, key_texts, texts
from headwater.views.targets.years import far_times


class Form(ABC):
    """Turns rows into what is staged, and back."""

    name: str

    def __init__(self, shape: Shape) -> None:
        self.schema = shape.schema
        self.key = shape.key

    def refused(self, rows: pa.RecordBatch) -> Iterable[tuple[int, str]]:
        """Rows that do not fit this form."""
        return far_times(rows, self.schema.names)

    @abstractmethod
    def stage(self, part: str, number: int, rows: pa.RecordBatch) -> tuple[bytes, pa.Array]:
        """Commands that put rows aside, the first being this number of the part; their entries."""

    @abstractmethod
    def fetch(self, pipeline: Any, key: str) -> None:
        """Ask for what lies at a key."""

    @abstractmethod
    def rows(self, found: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
        """From pairs of key (without the place) and answer, nothing where there is nothing."""

    def wanted(self, keys: pa.Table) -> list[str]:
        """Where the rows of these keys lie."""
        return list(dict.fromkeys(key_texts(keys, self.key)))

    def only(self, rows: pa.RecordBatch, keys: pa.Table) -> pa.RecordBatch:
        """Of what was found there, the rows of these keys."""
        return rows


class Hash(Form):
    name = "hash"

    def stage(self, part: str, number: int, rows: pa.RecordBatch) -> tuple[bytes, pa.Array]:
        places, there, entries = _keyed(part, number, rows, self.key)
        columns = {name: texts(there.column(name)) for name in self.schema.names}
        return bytes_of(hashes(places, columns)), entries

    def fetch(self, pipeline: Any, key: str) -> None:
        pipeline.hgetall(key)

    def rows(self, found: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
        there = [row for _, row in found if row]
        columns = [from_texts([row.get(f.name) for row in there], f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class Json(Form):
    name = "json"

    def stage(self, part: str, number: int, rows: pa.RecordBatch) -> tuple[bytes, pa.Array]:
        places, there, entries = _keyed(part, number, rows, self.key)
        found = pa.array(documents(there.select(self.schema.names)), pa.string())
        return bytes_of(strings(places, found)), entries

    def fetch(self, pipeline: Any, key: str) -> None:
        pipeline.get(key)

    def rows(self, found: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
        return from_objects([json.loads(row) for _, row in found if row is not None], self.schema)


class Timeline(Form):
    name = "timeline"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        try:
            self.set, self.member, self.score = (
                shape.options[word] for word in ("set", "member", "score")
            )
        except KeyError as error:
            raise Misfit(
                f"a timeline needs the option {error.args[0]!r}",
                hint="name the columns for set, member and score",
            ) from None
        if len(shape.schema) == 0:
            return  # a command that only asks how far the view is
        columns = {self.set, self.member, self.score}
        if set(shape.schema.names) != columns or set(shape.key) != {self.set, self.member}:
            raise Misfit(
                f"a timeline has the columns {', '.join(sorted(columns))} and no others, and its key "
                f"is {self.set}, {self.member}",
                hint="select these columns in the view",
            )
        kind = shape.schema.field(self.score).type
        if not (_is_number(kind) or pa.types.is_timestamp(kind)):
            raise Misfit(f"{self.score} is no number and no timestamp, so it cannot be a score")

    def refused(self, rows: pa.RecordBatch) -> Iterable[tuple[int, str]]:
        yield from far_times(rows, self.key)
        gone = rows.column(DELETED).to_pylist()
        for number, score in enumerate(self._scores(rows)):
            if gone[number]:
                continue
            if score is None or math.isnan(score):
                yield number, f"{self.score} is not a number"
            elif isinstance(score, int) and int(float(score)) != score:
                yield number, f"{self.score} is too large to be exact in a score"

    def stage(self, part: str, number: int, rows: pa.RecordBatch) -> tuple[bytes, pa.Array]:
        sets, members = key_texts(rows, [self.set]), key_texts(rows, [self.member])
        scores = self._scores(rows)
        entries = [
            json.dumps([one, member] if gone else [one, member, _score(score)])
            for one, member, score, gone in zip(
                sets, members, scores, rows.column(DELETED).to_pylist(), strict=True
            )
        ]
        return b"", pa.array(entries)

    def fetch(self, pipeline: Any, key: str) -> None:
        pipeline.zrange(key, 0, -1, withscores=True)

    def rows(self, found: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
        flat = [(key, member, score) for key, pairs in found for member, score in pairs]
        sets, members, scores = zip(*flat, strict=True) if flat else ((), (), ())
        kinds = {name: self.schema.field(name).type for name in self.schema.names}
        columns = {
            self.set: from_texts(sets, kinds[self.set]),
            self.member: from_texts(members, kinds[self.member]),
            self.score: _from_scores(scores, kinds[self.score]),
        }
        arrays = [columns[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def wanted(self, keys: pa.Table) -> list[str]:
        return list(dict.fromkeys(key_texts(keys, [self.set])))

    def only(self, rows: pa.RecordBatch, keys: pa.Table) -> pa.RecordBatch:
        chosen = set(key_texts(keys, self.key))
        return rows.filter(
            pa.array([key in chosen for key in key_texts(rows, self.key)], pa.bool_())
        )

    def _scores(self, rows: pa.RecordBatch) -> list[float | int | None]:
        column = rows.column(self.score)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return [value if value is None else _plain(value) for value in column.to_pylist()]


class Stream(Form):
    name = "stream"

    def stage(self, part: str, number: int, rows: pa.RecordBatch) -> tuple[bytes, pa.Array]:
        names = self.schema.names
        columns = [texts(rows.column(name)).to_pylist() for name in names]
        entries = [
            json.dumps(
                [x for n, v in zip(names, row, strict=True) if v is not None for x in (n, v)]
                or ["", ""]
            )
            for row in zip(*columns, strict=True)
        ]
        return b"", pa.array(entries)

    def fetch(self, pipeline: Any, key: str) -> None:
        pipeline.xrange(key)

    def rows(self, found: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
        there = [row for _, entries in found for _, row in entries]
        columns = [from_texts([row.get(f.name) for row in there], f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def form_of(shape: Shape) -> Form:
    """The form that a view asks for."""
    forms: dict[str, type[Form]] = {form.name: form for form in (Hash, Json, Timeline, Stream)}
    chosen = shape.options.get("form", "stream" if shape.kind is Kind.APPEND else "hash")
    if chosen not in forms or (chosen == "stream") != (shape.kind is Kind.APPEND):
        raise Misfit(
            f"the view {shape.view!r} cannot have the form {chosen!r} in Redis",
            hint="hash, json or timeline with a key, stream without one",
        )
    return forms[chosen](shape)


def _keyed(
    part: str, number: int, rows: pa.RecordBatch, key: Sequence[str]
) -> tuple[pa.Array, pa.RecordBatch, pa.Array]:
    """Where rows are staged, those that are (not the deleted ones), and the entries of all."""
    kept = pc.invert(rows.column(DELETED))
    numbers = pa.array(range(number, number + rows.num_rows), pa.int64()).filter(kept)
    places = pc.binary_join_element_wise(f"{part}:", numbers.cast(pa.string()), "")
    signs = pc.if_else(kept, "+", "-")
    entries = pc.binary_join_element_wise(signs, pa.array(key_texts(rows, key)), "")
    return places, rows.filter(kept), entries


def _score(score: float | int | None) -> str:
    assert score is not None
    return repr(score)


def _plain(value: Any) -> float | int:
    return value if isinstance(value, int | float) else float(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _from_scores(scores: Iterable[float], kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pa.array(list(scores), pa.float64()).cast(kind)
    whole = pa.array([int(score) for score in scores], pa.int64())
    if pa.types.is_timestamp(kind):
        return whole.cast(pa.timestamp("us", kind.tz)).cast(kind)
    return whole.cast(kind)


def batches(rows: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows, so many at once."""
    for batch in rows:
        for begin in range(0, batch.num_rows, size):
            yield batch.slice(begin, size)
