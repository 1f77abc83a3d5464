"""How a position lies in the log: what moves with each commit, and beside it what there is of each table.

Pure; used by `writer` and `positions`. A capture of a thousand tables has a hundred kilobytes of these, and
a change of one row must not write all of it again.

    key    NAME                     value  {"position": {…}, "parts": digest, "run": …, "ts_ms": …}
    key    NAME and a zero byte     value  {"parts": digest, "position": {…its large members…}}

Invariants:
- A record that names parts must come in the transaction of these, or after it.
- Parts must be written again before they lie so far back that a start would have to look for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from headwater.capture.change import Record

Stored = dict[str, Any]
"""What the topic holds of a capture: position, run and time."""
_LARGE_BYTES = 1 << 10
_AGAIN_AFTER = 400


def _parts_key(name: str) -> bytes:
    return name.encode() + b"\0"


class PositionRecords:
    """Those of one writer of one capture."""

    def __init__(self, topic: str, name: str) -> None:
        self._topic, self._name = topic, name
        self._texts: dict[str, tuple[object, str]] = {}
        self._digest = ""
        self._since = 0

    def of(self, stored: Stored) -> list[Record]:
        """The records to write, in this order; together with what the position stands behind."""
        position, key = stored["position"], self._name.encode()
        large = [] if position is None else [n for n in position if self._is_large(n, position[n])]
        if not large:
            return [self._record(key, json.dumps(stored))]
        members = ", ".join(f"{json.dumps(name)}: {self._texts[name][1]}" for name in large)
        digest = hashlib.sha256(members.encode()).hexdigest()[:16]
        moving = {name: value for name, value in position.items() if name not in large}
        own = self._record(key, json.dumps({**stored, "position": moving, "parts": digest}))
        self._since += 1
        if digest == self._digest and self._since < _AGAIN_AFTER:
            return [own]
        self._digest, self._since = digest, 0
        parts = f'{{"parts": "{digest}", "position": {{{members}}}}}'
        return [self._record(_parts_key(self._name), parts), own]

    def _record(self, key: bytes, value: str) -> Record:
        return self._topic, key, value.encode(), None, 0

    def _is_large(self, name: str, value: object) -> bool:
        if not isinstance(value, dict | list) or not value:
            return False
        known = self._texts.get(name)
        if known is None or known[0] != value:
            known = self._texts[name] = (value, json.dumps(value))
        return len(known[1]) >= _LARGE_BYTES


class PartsMissing(Exception):
    """They lie further back, or nowhere."""


def last(name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> Stored | None:
    """What the last of these say of the capture. Raises PartsMissing."""
    found: bytes | None = None
    parts: dict[str, bytes] = {}
    for key, value in records:
        if key == name.encode():
            found = value
        elif key == _parts_key(name) and value is not None:
            parts[json.loads(value)["parts"]] = value
    if found is None:
        return None
    stored: Stored = json.loads(found)
    digest = stored.pop("parts", None)
    if digest is not None:
        if digest not in parts:
            raise PartsMissing(name)
        stored["position"] = {**json.loads(parts[digest])["position"], **stored["position"]}
    return stored
