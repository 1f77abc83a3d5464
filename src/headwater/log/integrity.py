"""Whether a log that must be whole is whole, asked before it is opened.

Opening a log mends it: a torn tail is cut, and where acknowledged records are missing their offsets stay
unused. For the catalogue that would be too late, since everything else follows from it, so the broker
comes here first. Nothing is changed, except that an interrupted compaction is finished or undone.

How long the log was, four files tell, and each may be missing: `durable-offset`, the checkpoint of all
logs, `leader-epoch-checkpoint`, and the names of the snapshots of producers. None of them is ever ahead of
what was durable.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from headwater.log import checkpoints, extent, replay, swap
from headwater.log.files import FileSystem
from headwater.log.replay import Damage
from headwater.log.segment import Segment, offset_named

_END = 2**63 - 1


def problem(files: FileSystem, directory: Path, recovery_point: int) -> str | None:
    """What is wrong with a log that begins at offset 0, in words that follow "It is"; None: nothing."""
    swap.tidy(files, directory)
    promised = max(recovery_point, _promised(files, directory))
    segments = _segments(files, directory)
    if segments and segments[0].base_offset:
        return f"shorter than it was: offsets 0 to {segments[0].base_offset - 1} are missing"
    end = 0
    for segment, following in pairwise([*segments, None]):
        assert segment is not None
        damage: list[Damage] = []
        for _, header, _ in replay.walk(segment, segment.size, 0, damage.append):
            end = header.next_offset
        lost = next((each for each in damage if each.first_offset < promised), None)
        if lost is not None:
            return f"damaged at byte {lost.file_position} of {lost.path.name}: {lost.reason}"
        if following is not None and end < min(following.base_offset, promised):
            return _shorter(end, min(following.base_offset, promised))
    return _shorter(end, promised) if end < promised else None


def _shorter(end: int, promised: int) -> str:
    return f"shorter than it was: offsets {end} to {promised - 1} are missing"


def _segments(files: FileSystem, directory: Path) -> list[Segment]:
    names = files.list(directory)
    bases = [base for name in names if (base := offset_named(name, ".log")) is not None]
    found = [Segment.found(files, directory, base, 0) for base in sorted(bases)]
    for segment, following in pairwise([*found, None]):
        assert segment is not None
        segment.next_offset = _END if following is None else following.base_offset
    return found


def _promised(files: FileSystem, directory: Path) -> int:
    """How far the log is known to have been durable, by the files beside it."""
    epochs = checkpoints.read_epochs(files, directory)
    return max(
        checkpoints.read_durable_offset(files, directory),
        # The first epoch is written without a sync: alone it may be torn.
        epochs[-1][1] if len(epochs) > 1 else 0,
        *extent.snapshots(files, checkpoints.SmallFiles(files), directory),
    )
