"""What has changed in a view since it was last told: its rows now against a digest of each row then. Pure.

A store says what its rows are, not what they were; sixteen bytes for each row are enough to know. Nothing is
known to have been told before `told` says that the changes are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from headwater.browse.errors import Refused

ROWS_MAX = 2_000_000

Change = tuple[bytes, bytes | None]
"""A key and its row as JSON; None: it is not there any more."""


class Known:
    """Of one view: what its readers have been told."""

    def __init__(self, view: str, rows_max: int = ROWS_MAX) -> None:
        self._view, self._rows_max = view, rows_max
        self._digests: dict[bytes, bytes] = {}
        self._pending: dict[bytes, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def learn(self, changes: Iterable[Change]) -> None:
        """These have been told."""
        for key, row in changes:
            if row is None:
                self._digests.pop(key, None)
            else:
                self._digests[key] = _digest(row)

    def changes(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[Change]:
        """What must be told so that readers have exactly these rows; deletions come last.

        Raises Refused beyond the bound of rows.
        """
        self._pending = {}
        gone = set(self._digests)
        for number, (key, row) in enumerate(rows):
            if number >= self._rows_max:
                raise Refused(
                    f"the view {self._view!r} has more than {self._rows_max:,} rows to compare",
                    hint="follow the topics that it reads, or make a smaller view of it",
                )
            gone.discard(key)
            digest = _digest(row)
            if self._digests.get(key) != digest:
                self._pending[key] = digest
                yield key, row
        for key in sorted(gone):
            self._pending[key] = None
            yield key, None

    def told(self) -> None:
        """The changes that were last asked for, all of them, are stored."""
        for key, digest in self._pending.items():
            if digest is None:
                self._digests.pop(key, None)
            else:
                self._digests[key] = digest
        self._pending = {}


def _digest(row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=16).digest()
