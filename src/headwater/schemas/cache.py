"""What was made of schemas, kept as long as all their texts together are short; pure. For several threads.

A schema may have nearly a megabyte, and what reads values by it ten times that: anybody's values may name
thousands of them.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from headwater.schemas.model import Imported, Schema

KNOWN_MAX = 5_000
LETTERS_MAX = 16_000_000
_LETTERS_AT_LEAST = 500
Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Cache(Generic[Key, Made]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Key, Made] = {}
        self._letters = 0

    def get(self, key: Key) -> Made | None:
        return self._known.get(key)

    def put(self, key: Key, made: Made, letters: int) -> Made:
        """`letters`: of the schema. Returns what another thread has put there meanwhile, or this."""
        with self._lock:
            if key in self._known:
                return self._known[key]
            self._letters += letters + _LETTERS_AT_LEAST
            if self._letters > LETTERS_MAX or len(self._known) >= KNOWN_MAX:
                self._known.clear()
                self._letters = letters
            return self._known.setdefault(key, made)

    def drop(self, key: Key) -> None:
        """It is another now."""
        with self._lock:
            self._known.pop(key, None)


def letters_of(schema: Schema, imported: tuple[Imported, ...] = ()) -> int:
    return len(schema.text) + sum(len(each.text) for each in imported)
