"""Which batches in a file belong to aborted transactions, found by the markers that end transactions.

`files` asks, under read_committed. The lists beside the segments (`.txnindex`) would tell too, but a
running broker writes them behind time. A range ends at the last stable offset, so every transaction that
it touches has ended, and its marker is in the log: in the piece that was read, or not far behind it. A
marker that is not found within LOOK_AHEAD_BYTES is somebody else's problem
(`Unresolved`): the leader knows.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.client.decode import headers as h
from headwater.record import control
from headwater.record.errors import InvalidBatch, RecordError

LOOK_AHEAD_BYTES = 64 * 1024 * 1024
STEP_BYTES = 1024 * 1024

Found = list[tuple[int, int, int | None]]


class Unresolved(Exception):
    """Whether a transaction was aborted cannot be seen here."""


class Markers:
    """Remembers what it found ahead, so that a long transaction is not searched for in each piece."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._following = 0
        self._ahead: dict[int, tuple[int, bool]] = {}
        """Producer → the first marker behind the last piece, and whether it aborts."""

    def aborted(
        self, data: NDArray[np.uint8], table: NDArray[np.int64], descriptor: int, at: int
    ) -> Found:
        """The aborted transactions in these batches, which `at` in the file follows."""
        if not np.any(table[:, h.ATTRIBUTES] & h.TRANSACTIONAL):
            return []
        open_since: dict[int, int] = {}
        found: Found = []
        columns = (h.BASE_OFFSET, h.ATTRIBUTES, h.PRODUCER, h.START)
        for base, attributes, producer, start in table[:, columns].tolist():
            if attributes & h.CONTROL:
                self._ahead.pop(producer, None)
                first = open_since.pop(producer, None)
                if first is not None and _aborts(data, start):
                    found.append((producer, first, base))
            elif attributes & h.TRANSACTIONAL:
                open_since.setdefault(producer, base)
        self._following = int(table[-1, h.BASE_OFFSET] + table[-1, h.LAST_DELTA]) + 1
        self._look_ahead({each for each in open_since if each not in self._ahead}, descriptor, at)
        for producer, first in open_since.items():
            marker, aborts = self._ahead[producer]
            if aborts:
                found.append((producer, first, marker))
        return sorted(found, key=lambda each: each[1])

    def _look_ahead(self, wanted: set[int], descriptor: int, at: int) -> None:
        looked, opened = 0, -1
        try:
            while wanted:
                data = np.frombuffer(os.pread(descriptor, STEP_BYTES, at), np.uint8)
                table, used = h.scan(data)
                if not used:
                    # The segment's end: the next one begins with the offset that comes now.
                    if opened >= 0:
                        os.close(opened)
                    opened = os.open(self._folder / f"{self._following:020d}.log", os.O_RDONLY)
                    descriptor, at = opened, 0
                    continue
                self._take(wanted, data, table)
                at += used
                looked += used
                if wanted and looked > LOOK_AHEAD_BYTES:
                    raise Unresolved(f"no end of the transactions of {sorted(wanted)}")
        except (OSError, RecordError) as error:
            raise Unresolved(str(error)) from error
        finally:
            if opened >= 0:
                os.close(opened)

    def _take(self, wanted: set[int], data: NDArray[np.uint8], table: NDArray[np.int64]) -> None:
        columns = (h.BASE_OFFSET, h.ATTRIBUTES, h.PRODUCER, h.START)
        for base, attributes, producer, start in table[:, columns].tolist():
            if producer in wanted and attributes & h.CONTROL:
                self._ahead[producer] = (base, _aborts(data, start))
                wanted.discard(producer)
        self._following = int(table[-1, h.BASE_OFFSET] + table[-1, h.LAST_DELTA]) + 1


def _aborts(data: NDArray[np.uint8], start: int) -> bool:
    try:
        return control.read_marker(data.data[start:]).kind == control.ABORT
    except InvalidBatch:
        return False
