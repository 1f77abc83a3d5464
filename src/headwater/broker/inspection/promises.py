"""What the small files say of a partition, before its segments are looked at: how far it promised to be.

`check` asks for every partition, as a start would; nothing is changed.
"""

from __future__ import annotations

from pathlib import Path

from headwater.broker import internal_topics
from headwater.broker.inspection.facts import Facts, Place, Promise
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.snapshots import Untouched, whole_snapshots
from headwater.log import checkpoints, extent
from headwater.log.files import Files


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
    told = max(recovery.get(place.key, 0), durable)
    promise = Promise(
        _end(place.directory, told, folder.is_clean),
        is_valid
        or (folder.is_clean and (place.key in recovery or any(whole_snapshots(place.directory)))),
        folder.is_clean,
    )
    kept = checkpoints.read_start_offset(Untouched(), place.directory)
    told = folder.offset(checkpoints.START_OFFSETS, place.key)
    facts = Facts(place, promise, told if kept is None else kept)
    facts.told_start, facts.told_end = told, recovery.get(place.key, 0)
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


def _end(directory: Path, told: int, is_clean: bool) -> int:
    try:
        return extent.believed_end(Files(), Untouched(), directory, told, clean=is_clean)
    except OSError:
        return told


def _told_otherwise(directory: Path) -> int:
    """How far the catalogue was by the other files beside it; a start believes these, too."""
    try:
        known = checkpoints.read_epochs(Files(), directory)
    except OSError:
        return 0
    return max(known[-1][1] if known else 0, *whole_snapshots(directory), 0)
