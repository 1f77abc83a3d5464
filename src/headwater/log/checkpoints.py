"""The small files beside the segments: how far things were, in Kafka's own text formats.

Read at start by `progress`, `store` and `recovery`, written by `progress`, `store` and `partition`.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint, cleaner-offset-checkpoint
        (one for all partitions, in the data folder)
        0 \n number of lines \n topic partition offset \n …
    leader-epoch-checkpoint   (per partition)   0 \n number of lines \n epoch start_offset \n …
    partition.metadata        (per partition)   version: 0 \n topic_id: URL-safe base64 of the UUID
    durable-offset, start-offset, cleaned-offset   (per partition, ours)
        offset int64 | crc32c of it uint32

`durable-offset` is written after every group commit and, but for the catalogue's, never waited for:
after a kill it tells exactly what had been acknowledged, after a power cut it may be older, but must
never be ahead of what is on disk. Below it the log is taken as whole; only what lies above is looked at
by recovery.

`start-offset` says where the log begins, and must be on disk before `log-start-offset-checkpoint` says so,
which has no checksum: that one is believed only where there is none of ours, as in a folder of Kafka's or of
headwater 0.1, and never removes a file. Every log with records gets its own soon, 0 or not.

`cleaned-offset` says how far the log was compacted, and by being there that offsets may be missing in it; it
must be on disk before the first such segment counts. Where more was believed to be clean than is, a tombstone
would go and leave the value that it deletes. So of `cleaner-offset-checkpoint`, which has no checksum, it is
only believed that it names the log, and of a damaged file of ours that it is there: all is dirty then.

Reading the small files beside the segments, each of which can be recreated: one that cannot be read counts
as a damaged one.

`recovery` and `store` read snapshots, checkpoints and topic ids through `SmallFiles` at start, and `Segment`
its indexes, so that one bad sector costs a longer start and not the partition. A directory in such a file's
place is set aside (`NAME.HEX32-stray`), or nothing could be written there again. What is not about the file
itself (no descriptor left, no memory) is raised.
"""

from __future__ import annotations

import base64
import errno
import logging
import struct
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from crc32c import crc32c

from headwater.log.files import FileSystem


class Reads(Protocol):
    """Whoever gives a file's bytes: the disk itself, or `SmallFiles`."""

    def read_bytes(self, path: Path) -> bytes | None: ...


RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
DURABLE_OFFSET = "durable-offset"
START_OFFSET = "start-offset"
CLEANED_OFFSET = "cleaned-offset"

_MISREAD_CHARACTERS_MAX = 2
_DURABLE = struct.Struct(">qI")
_DIGITS_MAX = 20

OFFSET_MAX = 2**62
"""Beyond it no log comes, and from it one could still go on: a number above is garbled."""
EPOCH_MAX = 1 << 20
"""Leader epochs, one for every crash: a batch with more is garbled, since they lie outside the checksum."""
EPOCH_KEPT_MAX = EPOCH_MAX // 2
"""A checkpoint with more is: those of the batches would soon be beyond what is believed of a batch."""

TopicPartition = tuple[str, int]


def read_offsets(files: Reads, path: Path) -> dict[TopicPartition, int]:
    """A checkpoint of all partitions; an unreadable one counts as absent (it only saves work)."""
    found: dict[TopicPartition, int] = {}
    for line in _lines(files, path):
        match line.split(" "):
            case [topic, partition, offset] if _is_number(partition) and _is_offset(offset):
                found[topic, int(partition)] = int(offset)
            case _:
                return {}
    return found


def write_offsets(files: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    rows = (
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    )
    files.write_atomic(path, _text(rows))


def read_epochs(files: Reads, directory: Path) -> list[tuple[int, int]]:
    """(epoch, first offset of that epoch), ascending."""
    found: list[tuple[int, int]] = []
    for line in _lines(files, directory / LEADER_EPOCHS):
        match line.split(" "):
            case [epoch, start] if _is_number(epoch, EPOCH_KEPT_MAX) and _is_offset(start):
                found.append((int(epoch), int(start)))
            case _:
                break
    return found


def write_epochs(files: FileSystem, directory: Path, epochs: Iterable[tuple[int, int]]) -> None:
    files.write_atomic(directory / LEADER_EPOCHS, pack_epochs(epochs))


def pack_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    return _text(f"{epoch} {start}" for epoch, start in epochs)


def _is_offset(text: str) -> bool:
    return _is_number(text, OFFSET_MAX)


def _is_number(text: str, most: int = 2**31 - 1) -> bool:
    """In digits as a program writes them."""
    is_short = text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX
    return is_short and int(text) <= most


def _lines(files: Reads, path: Path) -> list[str]:
    data = files.read_bytes(path)
    lines = (data or b"").decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or lines[1] != str(len(lines) - 2):
        return []
    return lines[2:]


def _text(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def encode_topic_id(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def read_topic_id(files: Reads, directory: Path) -> uuid.UUID | None:
    data = files.read_bytes(directory / PARTITION_METADATA)
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            try:
                return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
            except ValueError:
                return None
    return None


def is_misread(found: uuid.UUID, wanted: uuid.UUID) -> bool:
    """Whether `found` is `wanted` with a character or two damaged: ids of two topics have little in
    common."""
    pairs = zip(encode_topic_id(found), encode_topic_id(wanted), strict=True)
    return sum(one != other for one, other in pairs) <= _MISREAD_CHARACTERS_MAX


def write_topic_id(files: FileSystem, directory: Path, topic_id: uuid.UUID) -> None:
    text = f"version: 0\ntopic_id: {encode_topic_id(topic_id)}\n"
    files.write_atomic(directory / PARTITION_METADATA, text.encode())


def pack_durable_offset(offset: int) -> bytes:
    data = offset.to_bytes(8, "big")
    return data + crc32c(data).to_bytes(4, "big")


def read_durable_offset(files: Reads, directory: Path) -> int:
    """0 when there is none, or when it cannot be trusted."""
    return _checked(files.read_bytes(directory / DURABLE_OFFSET)) or 0


def write_start_offset(files: FileSystem, directory: Path, offset: int) -> None:
    files.write_atomic(directory / START_OFFSET, pack_durable_offset(offset))


def read_start_offset(files: Reads, directory: Path) -> int | None:
    """None when there is none, or when it cannot be trusted."""
    return _checked(files.read_bytes(directory / START_OFFSET))


def write_cleaned_offset(files: FileSystem, directory: Path, offset: int) -> None:
    files.write_atomic(directory / CLEANED_OFFSET, pack_durable_offset(offset))


def read_cleaned_offset(files: Reads, directory: Path) -> int | None:
    """None when there is none, or when it cannot be trusted."""
    return _checked(files.read_bytes(directory / CLEANED_OFFSET))


def _checked(data: bytes | None) -> int | None:
    if data is None or len(data) != _DURABLE.size:
        return None
    offset, crc = _DURABLE.unpack(data)
    return int(offset) if crc32c(data[:8]) == crc and offset >= 0 else None


logger = logging.getLogger("headwater.log")

TRIES = 4
_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_about_the_file(error: OSError) -> bool:
    """Else the machine lacks something, and the file may be as good as any."""
    return error.errno not in _MACHINE


class SmallFiles:
    """Reads for one partition, and remembers what could not be read."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self.unreadable: dict[Path, str] = {}
        """Why, in the system's words."""

    def read_bytes(self, path: Path) -> bytes | None:
        """None if it is not there or cannot be read, and not only for a moment: to do without costs more."""
        try:
            return self._read(path)
        except OSError as error:
            if not is_about_the_file(error):
                raise
            if path not in self.unreadable:
                logger.error("%s cannot be read, and is recreated: %s", path, error)
            self.unreadable[path] = error.strerror or str(error)
            if isinstance(error, IsADirectoryError):
                self._set_aside(path)
            return None

    def _read(self, path: Path) -> bytes | None:
        for _ in range(TRIES - 1):
            try:
                return self._files.read_bytes(path)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
        return self._files.read_bytes(path)

    def _set_aside(self, path: Path) -> None:
        try:
            self._files.rename(path, path.with_name(f"{path.name}.{uuid.uuid4().hex}-stray"))
        except OSError as error:  # whoever writes there meets it again
            logger.error("%s is in the way, and could not be set aside: %s", path, error)
