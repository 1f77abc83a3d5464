"""Excision: records are taken out of sealed segments as if they had never been there.

The broker (`excisions`) runs `main` in a process of its own, as with compaction, and puts the outcome
in place in the same way (`compaction.begin`, `swap`). Every batch keeps its place, its offsets and its
producer's numbers, even if no record is left in it; so all other records keep their offsets and
nothing looks like a gap. A batch whose records cannot be read, which earlier versions stored, is left as
it is and named in the result: it can be taken out by its offsets. So is a damaged segment. What is taken
out is named by offsets, or by the salted SHA-256 of a key: the key itself is personal data as often as
not, and must not be written down once more.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from headwater.log import swap, worker
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.cleaned_segment import CannotCompact, CleanedSegment
from headwater.log.compaction_plan import Made, Result, Source
from headwater.log.compactor import UNREADABLE_MAX
from headwater.log.files import Files, FileSystem
from headwater.log.segment import CorruptSegment
from headwater.log.sources import batches_of, damage
from headwater.log.survivors import emptied, with_records
from headwater.record import batch as batches
from headwater.record.batch import BatchHeader, Buffer
from headwater.record.errors import RecordError
from headwater.record.keys import offsets_of, payload_of, read_keys

KNOWN_BYTES_MAX = 16 * 1024**2
"""Of keys that are remembered because they may come again."""
_KNOWN_BYTES = 150
"""What one takes beside its own bytes."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are to go: those of one key, or those in a range of offsets."""

    salt: str = ""
    digest: str = ""
    """Hexadecimal SHA-256 of salt and key; empty: by offsets."""
    first_offset: int = 0
    last_offset: int = -1

    @classmethod
    def of_key(cls, key: bytes, salt: str) -> Selection:
        return cls(salt=salt, digest=hashlib.sha256(bytes.fromhex(salt) + key).hexdigest())

    def matcher(self) -> Callable[[bytes | None], bool]:
        """Whether a key is the one; a key that comes again and again is not hashed each time."""
        salt, digest = bytes.fromhex(self.salt), bytes.fromhex(self.digest)
        known: dict[bytes, bool] = {}
        known_bytes = 0

        def matches(key: bytes | None) -> bool:
            nonlocal known_bytes
            if key is None:
                return False
            found = known.get(key)
            if found is None:
                known_bytes += len(key) + _KNOWN_BYTES
                if known_bytes > KNOWN_BYTES_MAX:
                    known.clear()
                    known_bytes = 0
                found = known[key] = hashlib.sha256(salt + key).digest() == digest
            return found

        return matches


@dataclass(frozen=True, slots=True)
class Work:
    """What the process is told."""

    sources: tuple[Source, ...]
    target: Selection
    index_interval_bytes: int
    dry_run: bool = False
    aborted: tuple[AbortedTransaction, ...] = ()
    """Every aborted transaction whose marker lies in the sources."""

    def to_json(self) -> str:
        """There may be very many sources and transactions: called in a thread."""
        return json.dumps(
            {
                "sources": [(s.base_offset, s.next_offset, s.size) for s in self.sources],
                "target": asdict(self.target),
                "index_interval_bytes": self.index_interval_bytes,
                "dry_run": self.dry_run,
                "aborted": self.aborted,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Work:
        fields = json.loads(text)
        fields["sources"] = tuple(Source(*numbers) for numbers in fields["sources"])
        fields["target"] = Selection(**fields["target"])
        fields["aborted"] = tuple(AbortedTransaction(*entry) for entry in fields["aborted"])
        return cls(**fields)


def excise(
    files: FileSystem, directory: Path, work: Work, *, check: worker.Check = lambda: None
) -> Result:
    """Write `.cleaned` segments without the records; a dry run only counts. `check` is called before
    each batch, and may end it by raising.

    Raises CannotCompact, OSError; the log's own files are not touched.
    """
    if swap.is_decided(files, directory):
        raise CannotCompact("an earlier change was interrupted; open the log again first")
    swap.forget(files, directory)
    run = _Excision(files, directory, work, check)
    try:
        return run.run()
    except Exception:
        swap.forget(files, directory)
        raise


class _Excision:
    """One run of `excise`."""

    def __init__(self, files: FileSystem, directory: Path, work: Work, check: worker.Check) -> None:
        self._check = check
        self._files = files
        self._directory = directory
        self._work = work
        self._matches = work.target.matcher()
        self._records_read = self._records_kept = self._bytes_read = self._bytes_kept = 0
        self._unreadable: list[str] = []
        self._damaged: list[str] = []

    def run(self) -> Result:
        wanted = filter(self._may_have, self._work.sources)
        made = [new for source in wanted if (new := self._try(source))]
        if made:
            self._files.sync_dir(self._directory)
        return Result(
            tuple(made),
            0,
            0,
            self._records_read,
            self._records_kept,
            self._bytes_read,
            self._bytes_kept,
            tuple(self._damaged[:UNREADABLE_MAX]),
            unreadable=tuple(self._unreadable[:UNREADABLE_MAX]),
        )

    def _may_have(self, source: Source) -> bool:
        """Whether what is to go may lie in this segment."""
        target = self._work.target
        return bool(target.digest) or (
            source.base_offset <= target.last_offset and target.first_offset < source.next_offset
        )

    def _try(self, source: Source) -> Made | None:
        """A damaged segment is left as it is, and named: the others must not wait for its repair."""
        counts = self._records_read, self._records_kept, self._bytes_read, self._bytes_kept
        try:
            return self._rewrite(source)
        except CorruptSegment as error:
            self._damaged.append(str(error))
            self._records_read, self._records_kept, self._bytes_read, self._bytes_kept = counts
            return None

    def _rewrite(self, source: Source) -> Made | None:
        """The segment without the records; None if it has none of them."""
        work = self._work
        output = CleanedSegment(
            self._files, self._directory, [source], work.index_interval_bytes, work.aborted
        )
        changed = False
        unreadable: list[str] = []
        try:
            for position, header, batch in batches_of(
                self._files, self._directory, source, lambda _: None
            ):
                self._check()
                kept: Buffer = batch
                try:
                    kept = self._without(header, batch)
                except RecordError as error:
                    error = damage(self._directory, source, position, header, error)
                    unreadable.append(str(error))
                changed |= kept is not batch
                left = batches.read_header(kept)
                self._records_read += header.record_count
                self._records_kept += left.record_count
                self._bytes_read += header.size
                self._bytes_kept += left.size
                if not self._work.dry_run:
                    output.add(left, kept)
            self._unreadable += unreadable
            if changed and not self._work.dry_run:
                return output.finish()
            output.discard()
            return None
        except CorruptSegment:
            output.discard()
            raise
        finally:
            output.close()

    def _without(self, header: BatchHeader, batch: Buffer) -> Buffer:
        if header.is_control or not header.record_count:
            return batch
        kept = self._kept(header, batch)
        if len(kept) == header.record_count:
            return batch
        return with_records(header, batch, kept) if kept else emptied(header)

    def _kept(self, header: BatchHeader, batch: Buffer) -> list[int]:
        """The numbers of the records that stay."""
        target = self._work.target
        if target.digest:
            keys, _ = read_keys(payload_of(header, batch), header.record_count)
            return [number for number, key in enumerate(keys) if not self._matches(key)]
        if header.last_offset < target.first_offset or header.base_offset > target.last_offset:
            return list(range(header.record_count))
        if target.first_offset <= header.base_offset and header.last_offset <= target.last_offset:
            return []  # all of it: so even a batch goes whose records cannot be read
        return [
            number
            for number, offset in enumerate(offsets_of(header, batch))
            if not target.first_offset <= offset <= target.last_offset
        ]


def command(directory: Path) -> list[str]:
    """What to run, with the work on standard input (`worker`)."""
    return worker.command("headwater.log.excision", directory)


def main(arguments: list[str] | None = None) -> int:
    """`python -m headwater.log.excision`: 0 and the result as JSON, or 1 and why not."""
    return worker.run("headwater.log.excision", arguments, _excise)


def _excise(directory: Path, told: str, check: worker.Check) -> str:
    return excise(Files(), directory, Work.from_json(told), check=check).to_json()


if __name__ == "__main__":
    sys.exit(main())
