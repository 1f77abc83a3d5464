"""The command line: the outermost ring, which only puts the others together.

Called by the `headwater` script and `python -m headwater`. Each command is one file of this
package; typer reads the words, except for a plain `headwater broker ...`, which goes the quick
way so that the broker's process never loads typer (decision 0004). A command imports what it
needs inside its function.

Exit codes: 0 done; 1 it failed, and one sentence on stderr says why; 2 the words were not
understood; 130 interrupted.
"""

from __future__ import annotations

import os
import sys

from headwater.cli.quick import start, understand
from headwater.deprecation import show_warnings
from headwater.errors import HeadwaterError

FAILED = 1
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code; a user's mistake never shows a traceback."""
    if arguments is not None:
        return _code_of(arguments)
    show_warnings()  # a process of its own, and not a test's
    try:
        return _code_of(sys.argv[1:])
    finally:
        _write_the_rest()


def _write_the_rest() -> None:
    """A reader that went away (`| head -1`) is no failure where it is seen only now, either."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code_of(words: list[str]) -> int:
    try:
        if words[:1] == ["broker"]:
            understood = understand(words[1:])
            if understood is not None:
                return start(understood)
        from headwater.cli.app import run

        return run(words)
    except HeadwaterError as error:
        _complain(error)
        return FAILED
    except ModuleNotFoundError as error:
        from headwater.project.packages import uninstalled

        _complain(uninstalled(error, words[0] if words else ""))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _complain(error: HeadwaterError) -> None:
    """One line for each sentence of the error, and what to do next at the end."""
    *others, last = error.sentence.splitlines() or [type(error).__name__]
    for sentence in others:
        print(f"headwater: {sentence}", file=sys.stderr)
    if error.hint:
        last += f" {error.hint}" if last.endswith((".", "?", "!")) else f"; {error.hint}"
    print(f"headwater: {last}", file=sys.stderr)
