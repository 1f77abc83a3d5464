"""What batches have done that are in memory and not yet in the state's file: on disk before their targets
are told.

Written by `upkeep`. One file, `journal`, to which each batch adds an entry, durably. An entry of batch N says
that the target has all batches before it: N is planned only then. So whoever finds the journal after a crash
does to the state what all entries but the last say; and what the last one says once its batch is known to be
done, or comes again. A batch that the state's file has is passed over; when that has all of them, the next
entry takes the place of the file.

    {"batch": 7, "bytes": 4711, "crc": 123456}      one line
    4711 bytes, as in `pending`

The last entry may be cut short: then it was never finished, and its target never told.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from headwater import atomic_file
from headwater.views.tables import pending_batch
from headwater.views.tables.pending_batch import Entry
from headwater.views.tables.store import Difference

FILE = "journal"


class Journal:
    """One view's."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._is_begun = False
        self.bytes = 0
        """Of the entries that the state's file does not have."""

    def after(self, batch: int) -> list[Entry]:
        """The entries that follow a batch, without a gap."""
        found: dict[int, Entry] = {}
        for body in _bodies(self._path):
            entry = _entry(body)
            if entry.batch > batch:
                found[entry.batch] = entry
                self.bytes += len(body)
        listed: list[Entry] = []
        while (following := found.get(batch + 1 + len(listed))) is not None:
            listed.append(following)
        return listed

    def add(self, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> Entry:
        """On disk when this returns."""
        body = io.BytesIO()
        pending_batch.put(body, batch, changes, found)
        whole = _framed(batch, body.getvalue())
        if self._is_begun:
            self._append(whole)
        else:
            self._begin(whole)
        self.bytes += len(whole)
        return Entry(batch, changes, found)

    def _begin(self, first: bytes) -> None:
        """Go on behind the last whole entry; in a new file, where the state's file has them all."""
        if self.bytes:
            os.truncate(self._path, sum(len(_framed_again(body)) for body in _bodies(self._path)))
            self._append(first)
        else:
            atomic_file.write(self._path, first)
        self._is_begun = True

    def _append(self, entry: bytes) -> None:
        """Opened for each: a query that Spark ends tells nobody, and would leave it open."""
        with self._path.open("ab") as file:
            file.write(entry)
            file.flush()
            os.fdatasync(file.fileno())

    def settle(self) -> None:
        """The state's file has it all."""
        self.close()
        self.bytes = 0

    def close(self) -> None:
        self._is_begun = False


def forget(folder: Path, batch: int) -> None:
    """Remove the entry of a batch that is planned anew: of which nothing has come out."""
    path = folder / FILE
    bodies = list(_bodies(path))
    kept = [body for body in bodies if _batch_of(body) != batch]
    if len(kept) < len(bodies):
        atomic_file.write(path, b"".join(map(_framed_again, kept)))


def _bodies(path: Path) -> Iterator[bytes]:
    """Of all entries that are whole."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while line := file.readline():
            try:
                said = json.loads(line)
            except ValueError:
                return
            body = file.read(said["bytes"])
            if len(body) < said["bytes"] or zlib.crc32(body) != said["crc"]:
                return
            yield body


def _framed(batch: int, body: bytes) -> bytes:
    said = {"batch": batch, "bytes": len(body), "crc": zlib.crc32(body)}
    return json.dumps(said).encode() + b"\n" + body


def _framed_again(body: bytes) -> bytes:
    return _framed(_batch_of(body), body)


def _batch_of(body: bytes) -> int:
    return int(json.loads(body[: body.index(b"\n")])["batch"])


def _entry(body: bytes) -> Entry:
    found = pending_batch.taken(io.BytesIO(body), _batch_of(body))
    assert found is not None
    return found
