"""Long work that somebody started from the console: a command of headwater as a process of its own.

`verify` and `rebuild` start Spark; in a process of their own they are the same as on the command line, and
the page only reads what they print. One per view at a time. They end with the console.

    progress   a line "1,000 of 20,000 records, …" on standard error
    outcome    the exit code, and the last lines
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError
from headwater.project.parent_death import ends_with_parent

LINES_MAX = 200
_PROGRESS = re.compile(r"([\d,]+) of ([\d,]+) records")
_STOP_S = 5.0


class Busy(HeadwaterError):
    """The same work is under way."""


@dataclass
class Job:
    """One command, running or over."""

    what: str
    words: tuple[str, ...]
    begun: float
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    done: float | None = None
    """From 0 to 1; None: it does not say."""
    code: int | None = None
    ended: float | None = None
    process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self.ended is None

    def take(self, line: str) -> None:
        """One line that it printed."""
        if not line:
            return
        self.lines.append(line)
        if match := _PROGRESS.search(line):
            done, total = (int(number.replace(",", "")) for number in match.groups())
            self.done = done / total if total else None


class Jobs:
    """The last job of each name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def start(
        self,
        name: str,
        what: str,
        words: tuple[str, ...],
        environment: Mapping[str, str] | None = None,
    ) -> Job:
        """Run `headwater WORDS`; a second of the same name has to wait."""
        before = self._jobs.get(name)
        if before is not None and before.is_running:
            raise Busy(
                f"{before.what} is under way for {name}", hint="wait for its end, or stop it"
            )
        job = self._jobs[name] = Job(what, words, time.time(), environment or {})
        task = asyncio.get_running_loop().create_task(_run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def stop(self, name: str) -> None:
        """Ask it to end; what it has begun is kept, as with Ctrl-C."""
        job = self._jobs.get(name)
        if job is not None and job.process is not None and job.is_running:
            job.process.terminate()

    async def stop_all(self) -> None:
        for name in self._jobs:
            self.stop(name)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)
        for job in self._jobs.values():
            if job.process is not None and job.is_running:
                job.process.kill()


async def _run(job: Job) -> None:
    # It ends with the console: one that is killed leaves nothing behind.
    command = ends_with_parent(sys.executable, "-m", "headwater")
    try:
        job.process = await asyncio.create_subprocess_exec(
            *command,
            *job.words,
            env={**os.environ, **job.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert job.process.stdout is not None
        async for line in job.process.stdout:
            job.take(line.decode("utf-8", "replace").rstrip())
        job.code = await job.process.wait()
    except (OSError, ValueError) as error:
        job.take(str(error))
        job.code = -1
    finally:
        job.ended = time.time()
