"""How far a command is: a bar on a terminal, a line now and then elsewhere; nothing for the first second.

    with Bar("replaying") as bar:
        bar.show(done, total, "12 records")

All of it goes to stderr, so that what a command prints stays what it is. rich is imported once a bar shows.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

QUIET_S = 1.0
LINE_EVERY_S = 5.0
_REDRAW_S = 0.2


class Bar:
    """`unit`: what is counted."""

    def __init__(self, title: str, unit: str = "records") -> None:
        self._title, self._unit = title, unit
        self._began = self._told = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: int, total: int | None, note: str = "") -> None:
        """Cheap enough to be called often; `total` None: nobody knows."""
        now = time.monotonic()
        every = _REDRAW_S if self._progress is not None else QUIET_S
        if not self._is_terminal:
            every = LINE_EVERY_S
        if now - self._told < every:
            return
        self._told = now
        rate = done / max(now - self._began, 0.001)
        if self._is_terminal:
            self._draw(done, total, f"{rate:,.0f} {self._unit}/s  {note}".rstrip())
        else:
            of = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            words = [f"{self._title}: {of} {self._unit}", f"{rate:,.0f}/s", note]
            print(", ".join(filter(None, words)), file=sys.stderr, flush=True)

    def _draw(self, done: int, total: int | None, words: str) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self._progress = Progress(
                *columns,
                TextColumn("{task.fields[words]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._title, total=total, words=words)
            self._progress.start()
        self._progress.update(self._task, completed=done, total=total, words=words)


class Waiting:
    """A sign of life on a terminal while something else works that tells no progress."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Waiting:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show(self) -> None:
        if self._over.wait(QUIET_S):
            return
        from rich.console import Console

        began = time.monotonic() - QUIET_S
        with Console(stderr=True).status(self._title) as status:
            while not self._over.wait(_REDRAW_S):
                status.update(f"{self._title} ({time.monotonic() - began:.0f} s)")
