"""What goes wrong: one function for each fault of the matrix.

Each lets the operation of a `Run` meet its fault, and leaves the broker running on a disk that is well
again. What must hold afterwards is the run's business.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.testing.faults import Operation as DiskOperation
from headwater.testing.volatile import Outcome

from .oracle import require
from .world import ROOT, Violation

if TYPE_CHECKING:
    from .run import Run

Fault = Callable[["Run"], None]
CATALOGUE = "__headwater_catalogue-0"
AHEAD_MS = 3_000_000
"""Less than a record may be ahead of the broker's time."""


# ---- the machine stops -----------------------------------------------------------------------------


def kill(run: Run) -> None:
    """The process ends in some step; what was written is there."""
    run.world.disk.stop_after(run.step())
    run.operate()
    run.end_process()
    run.start()


def power(outcome: Outcome) -> Fault:
    def cut(run: Run) -> None:
        """The power goes in some step; what was not synced is lost, torn or something else."""
        run.world.disk.stop_after(run.step())
        run.operate()
        run.cut_power(outcome)
        if run.dice.random() < 0.3:  # and once more, while the log is being mended
            run.world.disk.stop_after(run.dice.randint(1, 25))
        run.start(again=lambda: run.cut_power(outcome))

    return cut


# ---- the disk refuses ------------------------------------------------------------------------------


def failing(
    operations: tuple[DiskOperation, ...], error: int, times: tuple[float, ...] = (1,)
) -> Fault:
    def fail(run: Run) -> None:
        """Some operations of the disk fail while the broker runs; then it is well again."""
        operation = run.dice.choice(operations)
        pattern = run.dice.choice(("*", "*", "*.log"))
        if operation in ("rename", "sync_dir", "make_dir", "remove"):
            pattern = "*"
        after = run.dice.randint(0, max(1, run.count_of(operation, pattern)))
        run.world.disk.fail(
            operation, error, after=after, times=run.dice.choice(times), name=pattern
        )
        run.operate()
        run.world.disk.heal()
        run.live(is_fenced=operation in ("sync", "sync_dir"))
        run.restart()

    return fail


def full(run: Run) -> None:
    """There is no room left, and then there is again."""
    room = run.dice.choice((0, 50, 300, 1000))
    run.world.disk.capacity_bytes = run.world.disk.used_bytes + room
    run.operate()
    run.world.disk.heal()
    run.live(is_fenced=False)
    run.restart()


def starting(operation: DiskOperation, error: int) -> Fault:
    def fail(run: Run) -> None:
        """The broker starts on a disk that fails; what could not be read is not taken for gone."""
        run.operate()
        run.end_somehow()
        times = run.dice.choice((1, 3, math.inf))
        after = run.dice.randint(0, 80)
        run.world.disk.fail(operation, error, after=after, times=times)
        try:
            run.world.start()
        except HeadwaterError:
            pass
        except Violation as violation:
            require("OSError" in str(violation), str(violation))
        else:
            run.world.run(run.world.wait(3))
            run.world.disk.heal()
            run.end_somehow()
        run.world.disk.heal()
        run.world.disk = run.world.disk.kill()
        run.start()

    return fail


# ---- time ------------------------------------------------------------------------------------------


def clock_set_back(run: Run) -> None:
    """Somebody sets the clock right in the middle of things: it was most of an hour ahead."""
    run.operate()
    run.world.latest_ms = run.world.clock.now_ms()
    run.world.clock.set(run.world.latest_ms - AHEAD_MS)
    run.story.append("the clock is set back")
    run.operate()
    if run.dice.random() < 0.5:
        run.live(is_fenced=False)
    run.restart()


# ---- somebody was here -----------------------------------------------------------------------------


def somebody(how: str) -> Fault:
    def harm(run: Run) -> None:
        """A file is removed, cut or altered between two lives of the broker."""
        run.operate()
        # Not after a power cut: that takes what tells a torn tail from one that somebody has damaged.
        run.end_somehow("stop", "kill")
        run.world.told.clear()
        disk = run.world.disk
        path = _any_file(run)
        before = disk.copy()
        _note(run, path)
        if how == "removed":
            for each in _with_its_indexes(run, path):
                disk.lose(each)
        elif how == "cut":
            disk.cut_short(path, run.dice.randrange(max(1, disk.size(path))))
        elif disk.size(path):
            disk.flip_bit(path)
        run.story.append(f"{path.relative_to(ROOT)} is {how}")
        try:
            run.start()
        except HeadwaterError as error:
            _refused(run, path, error)
            run.world.disk.put_back(before, path)
            run.oracle.damage.lost.clear()
            run.oracle.damage.state.clear()
            run.start()

    return harm


def _with_its_indexes(run: Run, path: Path) -> list[Path]:
    """Of a segment often all files, which leaves no trace of it; but not where compaction may leave gaps."""
    topic = path.parent.name.rpartition("-")[0]
    known = [each for each in run.oracle.model.topics if each.name == topic]
    may_have_gaps = not known or known[-1].may_compact()
    if path.suffix != ".log" or may_have_gaps or run.dice.random() < 0.5:
        return [path]
    return [each for each in run.world.disk.all_files(path.parent) if each.stem == path.stem]


def _any_file(run: Run) -> Path:
    """Each folder is as likely as any other, and a file of records as likely as all the others in it."""
    files = [path for path in run.world.disk.all_files(ROOT) if path.name != ".lock"]
    folder = run.dice.choice(sorted({path.parent for path in files}))
    here = [path for path in files if path.parent == folder]
    kind = run.dice.choice(sorted({path.suffix or path.name for path in here}))
    if folder != ROOT and run.dice.random() < 0.5:
        kind = ".log"
    return run.dice.choice([path for path in here if (path.suffix or path.name) == kind] or here)


def _note(run: Run, path: Path) -> None:
    """What may be missing from now on."""
    damage, folder = run.oracle.damage, path.parent.name
    topic = folder.rpartition("-")[0]
    if path.parent == ROOT:
        damage.state.add(path.name)
        return
    if path.suffix == ".log":
        bases = sorted(
            int(p.stem) for p in run.world.disk.all_files(path.parent) if p.suffix == ".log"
        )
        following = [base for base in bases if base > int(path.stem)]
        end = following[0] if following else 2**62
        damage.lost.setdefault(folder, []).append((int(path.stem), end))
        damage.state.add(topic)


def _refused(run: Run, path: Path, error: HeadwaterError) -> None:
    allowed = path.parent.name == CATALOGUE or path.name == "meta.properties"
    require(allowed, f"{path.relative_to(ROOT)} is damaged, and the broker does not start: {error}")


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "lost": power("lost"),
    "torn": power("torn"),
    "corrupt": power("corrupt"),
    "failed-sync": failing(("sync", "sync", "sync_dir"), errno.EIO, (1, 2, math.inf)),
    "enospc": failing(("write", "create", "make_dir", "rename"), errno.ENOSPC, (1, 3, math.inf)),
    "full": full,
    "emfile": failing(("open", "create"), errno.EMFILE, (1, 2, 10, math.inf)),
    "eio-on-read": failing(("read",), errno.EIO, (1, 5, math.inf)),
    "eio-at-start": starting("read", errno.EIO),
    "emfile-at-start": starting("open", errno.EMFILE),
    "clock": clock_set_back,
    "removed": somebody("removed"),
    "cut": somebody("cut"),
    "altered": somebody("altered"),
}
