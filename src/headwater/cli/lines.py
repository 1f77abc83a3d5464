"""Lines as records to be: what `headwater produce` reads. Pure, but for reading the lines.

    plain    the line is the value
    keyed    KEY SEPARATOR VALUE
    jsonl    {"key": …, "value": …, "headers": [["name", "value"], …], "partition": …, "timestamp": …}

A string in JSON stands for its text, anything else for its JSON without spaces, null for nothing;
`key_hex` and `value_hex` are bytes. Other names are ignored, so that what `headwater tail` prints fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.publisher import Draft

LINE_BYTES_MAX = 64 * 1024 * 1024


class BadLine(HeadwaterError):
    """A line that is no record."""


@dataclass(frozen=True)
class Shape:
    """How a line is to be read, and what every record gets."""

    jsonl: bool = False
    separator: bytes | None = None
    key: bytes | None = None
    null: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None

    def draft(self, key: bytes | None, value: bytes | None) -> Draft:
        from headwater.client.publisher import Draft

        is_null = value is not None and value == self.null
        return Draft(key, None if is_null else value, self.headers, self.partition)


def drafts(source: IO[bytes], shape: Shape) -> Iterator[tuple[int, Draft]]:
    """Each record with the number of its line."""
    number = 0
    while line := source.readline(LINE_BYTES_MAX):
        number += 1
        if len(line) == LINE_BYTES_MAX:
            raise BadLine(f"line {number} is longer than {LINE_BYTES_MAX:,} bytes")
        line = line.removesuffix(b"\n")
        if not shape.jsonl:
            yield number, _plain(number, line, shape)
        elif line.strip():
            yield number, _from_json(number, line, shape)


def _plain(number: int, line: bytes, shape: Shape) -> Draft:
    if shape.separator is None:
        return shape.draft(shape.key, line)
    key, between, value = line.partition(shape.separator)
    if not between:
        raise BadLine(
            f"line {number} has no key separator {shape.separator.decode(errors='replace')!r}",
            hint="correct the line, or give another --key-separator",
        )
    return shape.draft(key, value)


def _from_json(number: int, line: bytes, shape: Shape) -> Draft:
    from headwater.client.publisher import Draft

    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(
            f"line {number} is not JSON: {error}", hint="without --jsonl a line is stored as it is"
        ) from None
    if not isinstance(said, dict) or not {"key", "value", "key_hex", "value_hex"} & said.keys():
        raise BadLine(
            f"line {number} has neither a key nor a value",
            hint='with --jsonl a line is an object as in {"key": "17", "value": {"total": 12}}; '
            "without it a line is stored as it is",
        )
    try:
        key = _part(said, "key")
        partition = said.get("partition") if shape.partition is None else shape.partition
        return Draft(
            shape.key if key is None else key,
            _part(said, "value"),
            (*shape.headers, *_headers(said.get("headers"))),
            None if partition is None else int(partition),
            _timestamp(said.get("timestamp")),
        )
    except (ValueError, TypeError) as error:
        raise BadLine(f"line {number}: {error}", hint="correct it and go on from there") from None


def _part(said: dict[str, Any], name: str) -> bytes | None:
    if (digits := said.get(f"{name}_hex")) is not None:
        return bytes.fromhex(digits)
    value = said.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _headers(said: Any) -> Iterator[tuple[str, bytes | None]]:
    pairs = said.items() if isinstance(said, dict) else said or ()
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError("headers are pairs of name and value")
        name, value = pair
        if isinstance(value, dict):
            yield str(name), bytes.fromhex(value["hex"])
        else:
            yield str(name), None if value is None else str(value).encode()


def _timestamp(said: Any) -> int | None:
    """Milliseconds, or a time as text."""
    if said is None or isinstance(said, int):
        return said
    from headwater.client.places import time_of

    try:
        return time_of(str(said))
    except HeadwaterError as error:
        raise ValueError(str(error)) from None
