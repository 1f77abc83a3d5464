"""What the processes that write segments anew have in common: compaction and excision run in it.

The broker starts `command()` (`child`), gives the work as JSON to its standard input and reads the result
from its standard output; if the exit status is not 0, the last line of its standard error says why. The
process has a low priority, works alone in its folder, and gives up when its broker is gone: what it would
write then, nobody puts in place. So it does when the folder has been renamed, because its topic was deleted:
another topic may have one of that name by now, and another process at work in it.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.log.cleaned_segment import CannotCompact
from headwater.record.errors import RecordError

_NICE = 10

Check = Callable[[], None]
"""To be called before anything that was read is written. Raises CannotCompact when there is no broker any
more, or the folder is another one."""


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """While nobody else writes segments anew there: a process that has outlived its broker may still be at
    it, under the very names. Raises OSError."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _hold(folder)
        yield
    finally:
        os.close(folder)


def _hold(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sentence = "another compaction or excision is at work here; try again when it has ended"
        raise BlockingIOError(errno.EAGAIN, sentence) from None


def command(module: str, directory: Path) -> list[str]:
    """What to run; it gives up when this process is gone."""
    arguments = ["--directory", str(directory), "--parent", str(os.getpid())]
    return [sys.executable, "-P", "-m", module, *arguments]


def run(
    module: str,
    arguments: list[str] | None,
    work: Callable[[Path, str, Check], str],
) -> int:
    """Do `work` (folder, what was given as JSON, check) and print what it returns: the exit status."""
    parser = argparse.ArgumentParser(prog=module)
    parser.add_argument("--directory", type=Path, required=True, help="the partition's folder")
    parser.add_argument("--parent", type=int, help="give up when this is no longer the parent")
    given = parser.parse_args(arguments)

    folder = os.open(given.directory, os.O_RDONLY | os.O_DIRECTORY)

    def check() -> None:
        if given.parent not in (None, os.getppid()):
            raise CannotCompact("the broker that asked for this is gone")
        if not os.path.samestat(os.stat(given.directory), os.fstat(folder)):
            raise CannotCompact("the folder is another one now: its topic was deleted")

    told = sys.stdin.read()
    os.nice(_NICE)
    try:
        check()
        _hold(folder)
        result = work(given.directory, told, check)
    except (RecordError, CannotCompact, OSError) as error:
        print(f"{given.directory}: {error}", file=sys.stderr)
        return 1
    finally:
        os.close(folder)
    print(result)
    return 0
