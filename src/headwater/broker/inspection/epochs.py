"""Leader epochs: those in the batches, which no checksum covers, against those in the checkpoint.

`partition` calls `inspect` once the segments are through. A start after a crash takes a batch of the tail
with an impossible epoch for torn, and clients ask by epoch whether a tail was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headwater.broker.inspection.facts import EpochRun, Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.remedy import Edit, EditSegment, WriteEpochs
from headwater.log import checkpoints
from headwater.log.files import Files


def inspect(facts: Facts) -> Iterator[Finding]:
    """Raises OSError."""
    place = facts.place
    path = place.directory / checkpoints.LEADER_EPOCHS
    data = path.read_bytes() if path.exists() else None
    known = checkpoints.read_epochs(Files(), place.directory)
    liars = _liars(facts.epoch_runs)
    for run in liars:
        yield _liar(facts, run)
    runs = [run for run in facts.epoch_runs if run not in liars]
    problem = _problem(data, known, runs)
    if problem is None and known and known[-1][1] > facts.end_offset:
        problem = (
            f"epoch {known[-1][0]} begins at {known[-1][1]}, and the log ends at {facts.end_offset}"
        )
    if problem is not None and facts.was_read:
        yield Finding(
            "epochs-wrong",
            Severity.NUISANCE,
            place.where(checkpoints.LEADER_EPOCHS),
            f"the leader epochs are wrong: {problem}",
            "clients that ask whether a tail was cut get a wrong answer; after a crash a start may "
            "take whole batches for torn ones",
            place.topic,
            place.number,
            remedy=WriteEpochs(
                "write them as the batches have them", place.directory, _shown(facts, runs)
            ),
        )


def _liars(runs: list[EpochRun]) -> list[EpochRun]:
    """Single batches whose epoch fits neither what is before nor what is behind them."""
    found = []
    previous = None
    for number, run in enumerate(runs):
        following = runs[number + 1] if number + 1 < len(runs) else None
        goes_back = previous is not None and run.epoch < previous.epoch
        is_island = following is not None and following.epoch < run.epoch
        if run.batches == 1 and (run.epoch < 0 or goes_back or is_island):
            found.append(run)
        else:
            previous = run
    return found


def _liar(facts: Facts, run: EpochRun) -> Finding:
    place, header = facts.place, run.header
    epoch = max((r.epoch for r in facts.epoch_runs if r.first_offset < run.first_offset), default=0)
    others = [r.epoch for r in facts.epoch_runs if r is not run and r.epoch >= 0]
    epoch = min(epoch, max(others, default=0))
    head = header.base_offset.to_bytes(8, "big") + header.batch_length.to_bytes(4, "big")
    head += epoch.to_bytes(4, "big") + b"\x02" + header.crc.to_bytes(4, "big")
    edit = Edit(
        run.file_position,
        run.file_position + header.size,
        header.base_offset,
        header.next_offset,
        epoch,
        head,
    )
    return Finding(
        "epoch-impossible",
        Severity.NUISANCE,
        place.where(f"{run.base_offset:020d}.log"),
        f"the batch at byte {run.file_position} says that it is of leader epoch {run.epoch}, its "
        f"neighbours do not",
        "most clients do not look; some take it for a sign that the log was cut",
        place.topic,
        place.number,
        header.base_offset,
        header.last_offset,
        EditSegment("write the right epoch", place.directory, run.base_offset, edit),
    )


def _problem(data: bytes | None, known: list[tuple[int, int]], runs: list[EpochRun]) -> str | None:
    newest = max((run.epoch for run in runs), default=0)
    if data is None:
        return f"the file is missing, and there are batches of epoch {newest}" if newest else None
    if not known or data != checkpoints.pack_epochs(known):
        return "it is no list of epochs and offsets"
    for (epoch, start), (later, begins) in pairwise(known):
        if later <= epoch or begins < start:
            return f"epoch {later} does not follow on epoch {epoch}"
    if newest > known[-1][0]:
        return f"there are batches of epoch {newest}, and it ends with {known[-1][0]}"
    if known[-1][0] > newest + 1_000_000:
        return f"it ends with epoch {known[-1][0]}, and the newest batch is of epoch {newest}"
    for run in runs:
        expected = [epoch for epoch, start in known if start <= run.first_offset]
        if expected and expected[-1] != run.epoch:
            return f"offset {run.first_offset} is of epoch {run.epoch}, not {expected[-1]}"
    return None


def _shown(facts: Facts, runs: list[EpochRun]) -> tuple[tuple[int, int], ...]:
    """The epochs that the batches show, without those that go back."""
    kept: list[tuple[int, int]] = []
    for run in runs:
        if run.epoch >= 0 and (not kept or run.epoch > kept[-1][0]):
            kept.append((run.epoch, run.first_offset))
    return tuple(kept) or ((0, facts.first_offset),)
