"""Lines of JSON as records: split once, checked once for the whole body; line by line only where one is bad.

Pure; called by `http_in`. A line's value is what was sent, without the white space around it. Empty lines
count as lines and are no records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from headwater import json_size
from headwater.client.errors import BadRequest
from headwater.edges import json_values
from headwater.edges.errors import TooLarge

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ANY = msgspec.json.Decoder()
_WHITE = b" \t\r"
PIECE_BYTES = 256 * 1024
PATH_LETTERS_MAX, PATH_NAMES_MAX = 1000, 32
"""Of the field that is the key: each line is searched for it, and each that lacks it names it."""
BAD_MAX = 100_000
"""Of one body: each takes ten times the memory of a line that is good."""
_TOLD = {"Input data was truncated": "it ends in the middle"}


class Bad(NamedTuple):
    """A line that is no good; counted from 1."""

    line: int
    reason: str
    value: bytes


@dataclass
class Lines:
    """The good ones, and the bad ones."""

    values: list[bytes]
    numbers: Sequence[int]
    """Of the good ones, in the body."""
    bad: list[Bad] = field(default_factory=list)

    def without(self, refused: dict[int, str]) -> Lines:
        """Index of a good line → why it is none after all."""
        if not refused:
            return self
        keep = [number for number in range(len(self.values)) if number not in refused]
        bad = [Bad(self.numbers[n], why, self.values[n]) for n, why in refused.items()]
        return Lines(
            [self.values[number] for number in keep],
            [self.numbers[number] for number in keep],
            sorted([*self.bad, *bad]),
        )


def read(body: bytes) -> Lines:
    split = [line.strip(_WHITE) for line in body.split(b"\n")]
    if all(split[:-1]):  # as most bodies are: at most the last line is empty
        values = split if split[-1] else split[:-1]
        numbers: Sequence[int] = range(1, len(values) + 1)
    else:
        numbers = [number for number, line in enumerate(split, 1) if line]
        values = [line for line in split if line]
    if _is_clean(body, values):
        return Lines(values, numbers)
    lines = Lines(values, numbers)
    reasons = ((index, complaint(value)) for index, value in enumerate(values))
    return lines.without(_bounded((index, why) for index, why in reasons if why is not None))


def _bounded(failed: Iterable[tuple[int, str]]) -> dict[int, str]:
    """As many as are kept; raises TooLarge at the next, before what is behind it is looked at."""
    found: dict[int, str] = {}
    for index, why in failed:
        if len(found) == BAD_MAX:
            raise TooLarge(f"more than {BAD_MAX} lines are no good; send fewer at once")
        found[index] = why
    return found


def complaint(value: bytes) -> str | None:
    """Why a text is no JSON; None where it is."""
    try:
        value.decode()
        _RAW.decode(value)
    except UnicodeDecodeError as error:
        return f"it is no UTF-8 (byte {error.start})"
    except RecursionError:
        return "it is nested too deeply"
    except msgspec.DecodeError as error:
        return _TOLD.get(str(error), str(error))
    return None


def pieces(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """In order, each a few that may be looked at together: as objects they take many times their bytes."""
    begin = size = 0
    for number, value in enumerate(values):
        if size and size + len(value) > PIECE_BYTES:
            yield values[begin:number]
            begin, size = number, 0
        size += len(value)
    if begin < len(values):
        yield values[begin:]


def complaints(
    values: Sequence[bytes], check: Callable[[list[Any], Sequence[bytes]], dict[int, str]]
) -> dict[int, str]:
    """Index → what does not fit, by what each means and its text."""

    def each() -> Iterator[tuple[int, str]]:
        begin = 0
        for piece in pieces(values):
            meant, failed = objects(piece)
            wrong = {**check(meant, piece), **failed}
            yield from ((begin + index, why) for index, why in wrong.items())
            begin += len(piece)

    return _bounded(each())


def objects(values: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    """What each of them means, and why some mean nothing to us: a number that no float can hold."""
    failed = {n: why for n, value in enumerate(values) if (why := json_size.many(value))}
    if not failed:
        try:
            return _ANY.decode_lines(b"\n".join(values)), {}
        except (msgspec.DecodeError, RecursionError, ValueError):
            pass
    found: list[Any] = []
    for index, value in enumerate(values):
        try:
            found.append(None if index in failed else _ANY.decode(value))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            found.append(None)
            failed[index] = str(error)
    return found, failed


def check_path(path: str) -> None:
    """Raises BadRequest for one that is too long to be looked for in every line."""
    if len(path) > PATH_LETTERS_MAX or path.count(".") >= PATH_NAMES_MAX:
        raise BadRequest(
            f"key_field is longer than {PATH_LETTERS_MAX} letters or {PATH_NAMES_MAX} names",
            hint="name a field that is less deep",
        )


def keys(values: Sequence[bytes], path: str) -> tuple[list[bytes], dict[int, str]]:
    """The field at `path` (`customer.id`) of each as a record's key, and why some have none."""
    names = path.split(".")
    missing = f"it has no text and no number at {path!r}, which is to be the key"
    found: list[bytes] = []

    def failing() -> Iterator[tuple[int, str]]:
        for index, value in enumerate(values):
            key, reason = None, missing
            try:
                key = json_values.at(value, names)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                reason = str(error)
            if key is None:
                yield index, reason
            if isinstance(key, str):
                found.append(key.encode("utf-8", "surrogatepass"))
            else:
                found.append(msgspec.json.encode(key))

    return found, _bounded(failing())


def _is_clean(body: bytes, values: list[bytes]) -> bool:
    """Whether each line is one value, and nothing else."""
    try:
        body.decode()
        # It takes several values on a line, and one over several lines: so compare.
        return [bytes(value) for value in _RAW.decode_lines(body)] == values
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
