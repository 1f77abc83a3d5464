"""Runs `headwater …` with a sampling profiler inside: `python -m bench.broker.sampler OUT broker …`.

`profile` starts it. A timer counts the process's CPU time and interrupts every 2 ms; the handler notes
the main thread's stack. Python runs handlers between two bytecodes, so time inside a C call counts for
the line that made it, and time in the event loop's own C code for the callback that runs next. The
stacks are written at the end in the "folded" form that flame graph tools read: `a;b;c count`.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_INTERVAL_S = 0.002
_stacks: Counter[tuple[tuple[str, str, int], ...]] = Counter()


def _note(_: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append((code.co_filename, code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    _stacks[tuple(reversed(stack))] += 1


def _reset(_: int, __: FrameType | None) -> None:
    """SIGUSR1 marks the end of the warm-up."""
    _stacks.clear()


def _name(entry: tuple[str, str, int]) -> str:
    filename, function, line = entry
    path = Path(filename)
    return f"{path.parent.name}/{path.name}".replace(" ", "_") + f":{line} {function}"


def main() -> int:
    out = Path(sys.argv[1])
    sys.argv = ["headwater", *sys.argv[2:]]
    from headwater.cli import main as headwater

    signal.signal(signal.SIGUSR1, _reset)
    signal.signal(signal.SIGPROF, _note)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)
    try:
        return int(headwater() or 0)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        lines = [f"{';'.join(map(_name, stack))} {count}" for stack, count in _stacks.items()]
        out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
