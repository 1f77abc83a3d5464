"""What would mend a finding, as plain values: decided while looking, carried out by `surgery`.

Each has a `stage`: remedies are carried out in the order of their stages, so that a crash between any two
of them leaves a folder that can be inspected and repaired again. Nothing is deleted: whatever is replaced
or taken out goes into the folder that `aside` makes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headwater.log.checkpoints import TopicPartition


@dataclass(frozen=True, slots=True)
class Remedy:
    """`says`: what a repair would do, in words."""

    stage: ClassVar[int] = 0
    says: str


@dataclass(frozen=True, slots=True)
class MoveAside(Remedy):
    """Take files or folders out of the way."""

    stage: ClassVar[int] = 1
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class WriteMeta(Remedy):
    """Write `meta.properties` anew; the one that is there goes aside."""

    stage: ClassVar[int] = 1
    path: Path
    data: bytes


@dataclass(frozen=True, slots=True)
class RenameFolder(Remedy):
    """Give a partition's folder another name; what is in its way, without records, goes aside."""

    stage: ClassVar[int] = 2
    old: Path
    new: Path


@dataclass(frozen=True, slots=True)
class WriteTopicId(Remedy):
    """Let a partition's folder say which topic it is of; made where it is missing."""

    stage: ClassVar[int] = 3
    directory: Path
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Edit:
    """The bytes [start, end) of a segment become one batch, or nothing."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    leader_epoch: int
    header: bytes | None = None
    """The right header for the bytes behind it; None: a batch with these offsets."""
    batch: bytes | None = None
    """What has these offsets from now on; None: an empty batch."""


@dataclass(frozen=True, slots=True)
class EditSegment(Remedy):
    """Write a segment anew with this one change; all changes of a segment are made at once."""

    stage: ClassVar[int] = 5
    directory: Path
    base_offset: int
    edit: Edit


@dataclass(frozen=True, slots=True)
class CutTail(Remedy):
    """Cut a segment at a place in the file, before an edit moves that place."""

    stage: ClassVar[int] = 4
    directory: Path
    base_offset: int
    file_position: int


@dataclass(frozen=True, slots=True)
class FillHole(Remedy):
    """A segment with an empty batch for offsets whose records are gone."""

    stage: ClassVar[int] = 6
    directory: Path
    first_offset: int
    next_offset: int
    leader_epoch: int
    batch: bytes | None = None
    """What has these offsets from now on; None: an empty batch."""


@dataclass(frozen=True, slots=True)
class RebuildIndexes(Remedy):
    """Make a segment's offset and time index anew from its batches."""

    stage: ClassVar[int] = 7
    directory: Path
    base_offset: int


@dataclass(frozen=True, slots=True)
class WriteAborted(Remedy):
    """Make a segment's list of aborted transactions anew."""

    stage: ClassVar[int] = 7
    directory: Path
    base_offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class WriteEpochs(Remedy):
    """Make a partition's leader epochs anew."""

    stage: ClassVar[int] = 8
    directory: Path
    epochs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SetCheckpoint(Remedy):
    """Change one entry of a checkpoint; None: take it out."""

    stage: ClassVar[int] = 8
    path: Path
    key: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True)
class WriteCatalogue(Remedy):
    """Append records to the catalogue, which is made if it is not there."""

    stage: ClassVar[int] = 9
    directory: Path
    records: tuple[tuple[str, dict[str, Any]], ...]


def in_order(remedies: Iterable[Remedy]) -> list[Remedy]:
    """By their stages, without those for folders that will have changed their names by then: what they
    say was found in another folder. The next look decides anew."""
    found: list[Remedy] = []
    renamed: set[Path] = set()
    for each in sorted(without_repeats(remedies), key=lambda each: each.stage):
        folders = folders_of(each)
        if not folders & renamed:
            found.append(each)
            renamed |= folders if isinstance(each, RenameFolder) else set()
    return found


def without_repeats(remedies: Iterable[Remedy]) -> list[Remedy]:
    """Two findings in a row often want the same."""
    found: list[Remedy] = []
    for each in remedies:
        if each not in found[-50:]:
            found.append(each)
    return found


def folders_of(remedy: Remedy) -> set[Path]:
    """The partitions' folders that it speaks of."""
    if isinstance(remedy, RenameFolder):
        return {remedy.old, remedy.new}
    if isinstance(remedy, SetCheckpoint):
        return {remedy.path.with_name(f"{remedy.key[0]}-{remedy.key[1]}")}
    return {remedy.directory} if hasattr(remedy, "directory") else set()


def target_of(remedy: Remedy) -> str:
    """What it works on, for the report."""
    for name in ("directory", "path", "old"):
        if hasattr(remedy, name):
            return str(getattr(remedy, name))
    return ", ".join(map(str, getattr(remedy, "paths", ())))
