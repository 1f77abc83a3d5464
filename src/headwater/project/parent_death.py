"""Run a command that ends when its parent does, however that ends: `Popen(ends_with_parent(CMD…))`.

Started by the supervisor for each part. Were the supervisor killed with -9, parts that went on alone would
keep the port and the locks, and nobody would restart them. So they are killed as well, which each of them
survives; an orderly stop could wait for a broker that is gone already. Linux does that by itself, and
keeps it across exec; elsewhere the parts have to be stopped by hand.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def ends_with_parent(*command: str) -> list[str]:
    """The words of a command that ends with this process."""
    return [sys.executable, "-m", "headwater.project.parent_death", str(os.getpid()), *command]


def main(parent: int, words: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it could be told
            sys.exit(1)
    os.execv(words[0], words)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
