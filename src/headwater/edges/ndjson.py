"""Lines of JSON as records: split once, checked once for the whole body; line by line only where one is bad.

Pure; called by `http_in`. A line's value is what was sent, without the white space around it. Empty lines
count as lines and are no records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ANY = msgspec.json.Decoder()
_WHITE = b" \t\r"
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
    reasons = {index: complaint(value) for index, value in enumerate(values)}
    return lines.without({index: why for index, why in reasons.items() if why is not None})


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


def objects(values: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    """What each of them means, and why some mean nothing to us: a number that no float can hold."""
    try:
        return _ANY.decode_lines(b"\n".join(values)), {}
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    found: list[Any] = []
    failed: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            found.append(_ANY.decode(value))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            found.append(None)
            failed[index] = str(error)
    return found, failed


def keys(meant: Sequence[Any], path: str) -> tuple[list[bytes], dict[int, str]]:
    """The field at `path` (`customer.id`) of each as a record's key, and why some have none."""
    names = path.split(".")
    found: list[bytes] = []
    failed: dict[int, str] = {}
    for index, value in enumerate(meant):
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str):
            found.append(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(msgspec.json.encode(value))
        else:
            found.append(b"")
            failed[index] = f"it has no text and no number at {path!r}, which is to be the key"
    return found, failed


def _is_clean(body: bytes, values: list[bytes]) -> bool:
    """Whether each line is one value, and nothing else."""
    try:
        body.decode()
        # It takes several values on a line, and one over several lines: so compare.
        return [bytes(value) for value in _RAW.decode_lines(body)] == values
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
