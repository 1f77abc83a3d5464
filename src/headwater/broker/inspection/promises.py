"""What the small files say of a partition, before its segments are looked at: how far it promised to be.

`check` asks for every partition, as a start would; nothing is changed.
"""

from __future__ import annotations

from pathlib import Path

from headwater.broker import internal_topics
from headwater.broker.inspection.facts import Facts, Place, Promise
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.snapshots import SNAPSHOT
from headwater.log import checkpoints
from headwater.log.files import Files
from headwater.log.recovery import stopped_at
from headwater.log.segment import offset_named


class _Untouched:
    """Reads as a start does, to which an unreadable file is none, and sets nothing aside."""

    def read_bytes(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except OSError:
            return None


def facts_of(folder: Folder, place: Place, *, gaps: bool, is_known: bool = True) -> Facts:
    """What the checkpoints say of a partition, before its segments are looked at. `is_known`: the catalogue
    has it. Of another that was just being made they say nothing: they go by names, and forget an earlier
    topic of that name before the folder gets its id."""
    if not is_known and _is_empty(place.directory):
        return Facts(place, Promise(0, False, folder.is_clean), 0)
    recovery = folder.offsets.get(checkpoints.RECOVERY_POINTS, {})
    durable, is_valid = durable_offset(place.directory)
    if place.topic == internal_topics.CATALOGUE and not is_valid:
        durable = _told_otherwise(place.directory)
    stopped = _stopped_at(place.directory) if folder.is_clean else 0
    promise = Promise(
        max(recovery.get(place.key, 0), durable, stopped),
        is_valid or (folder.is_clean and (place.key in recovery or stopped > 0)),
        folder.is_clean,
    )
    kept = checkpoints.read_start_offset(_Untouched(), place.directory)
    told = folder.offset(checkpoints.START_OFFSETS, place.key)
    facts = Facts(place, promise, told if kept is None else kept)
    facts.told_start = told
    told = folder.offset(checkpoints.CLEANED_OFFSETS, place.key)
    facts.gaps = gaps or told > 0 or (place.directory / checkpoints.CLEANED_OFFSET).exists()
    try:
        facts.topic_id = checkpoints.read_topic_id(Files(), place.directory)
    except OSError:
        facts.was_read = False
    return facts


def _is_empty(directory: Path) -> bool:
    try:
        return not any(directory.iterdir())
    except OSError:
        return False


def durable_offset(directory: Path) -> tuple[int, bool]:
    """What its file says, and whether that is to be believed."""
    try:
        data = (directory / checkpoints.DURABLE_OFFSET).read_bytes()
    except OSError:
        return 0, False
    offset = checkpoints.read_durable_offset(Files(), directory)
    return offset, data == checkpoints.pack_durable_offset(offset)


def _stopped_at(directory: Path) -> int:
    try:
        return stopped_at(Files(), directory)
    except OSError:
        return 0


def _told_otherwise(directory: Path) -> int:
    """How far the catalogue was by the other files beside it; a start believes these, too."""
    try:
        known = checkpoints.read_epochs(Files(), directory)
        names = [path.name for path in directory.iterdir() if path.name.endswith(SNAPSHOT)]
    except OSError:
        return 0
    offsets = [each for name in names if (each := offset_named(name, SNAPSHOT)) is not None]
    return max(known[-1][1] if known else 0, *offsets, 0)
