"""`headwater up`: start the parts of a project in order, keep them running, stop them in order.

One thread looks at every part several times a second. A part that ends is started again after a wait
that doubles with each failure; the others go on, as each of them finds the log again by itself. What a
part prints goes to its own file and, with its name before each line, to whoever is looking.

    waiting ──▶ starting ──ready──▶ running ──ended──▶ waiting, longer each time
"""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from headwater.errors import HeadwaterError
from headwater.log.meta import cluster_id
from headwater.project import packages, record
from headwater.project.admission import require_free
from headwater.project.hello import cluster_at, page_answers
from headwater.project.leash import leashed
from headwater.project.parts import Part
from headwater.project.record import PartLog

LOOK_EVERY_S = 0.1
STOP_PATIENCE_S = 60.0
"""A batch of Spark on a busy machine takes its time, and should be ended by itself."""
CALM_S = 30.0
"""A part that has run for so long has recovered: its next failure counts as its first."""
MOST_S = 30.0


class AlreadyUp(HeadwaterError):
    """Another supervisor has this project."""


class Keeper:
    """One part that is kept running."""

    def __init__(self, part: Part, folder: Path, work: Path) -> None:
        self.part = part
        page = f"http{'s' * part.is_secure}://{part.page_at}/" if part.page_at else None
        self._log = PartLog(folder / part.log_name)
        self.entry = record.Entry(part.name, log=str(self._log.path), since=time.time(), page=page)
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._due = 0.0
        self._begun = 0.0

    @property
    def ready(self) -> bool:
        return self.entry.state == "running"

    @property
    def is_there(self) -> bool:
        return self._process is not None

    def step(self) -> str | None:
        """Do what is due; a sentence when something has changed."""
        process = self._process
        if process is None:
            if time.monotonic() < self._due:
                return None
            lack = packages.lacking(self.part.needs)
            return self._start() if lack is None else self._cannot(*lack)
        code = process.poll()
        if code is not None:
            return self._ended(code)
        if self.entry.state == "starting" and self.answers():
            self._enter("running")
            return f"running at {self.entry.page}" if self.entry.page else "running"
        return None

    def lines(self) -> list[str]:
        """What the part has printed since the last call."""
        return self._log.lines()

    def tell_to_stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def wait_stopped(self, deadline: float) -> bool:
        """Whether it went by itself; it is gone in any case."""
        process, self._process = self._process, None
        if process is None:
            return True
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
            went = True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            went = False
        self._enter("stopped")
        return went

    def close(self) -> None:
        self._log.close()

    def _start(self) -> str:
        with self._log.open() as output:
            self._process = subprocess.Popen(
                leashed(*self.part.command),
                cwd=self._work,
                env={**os.environ, **self.part.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the supervisor, which stops them in order
            )
        self._begun = time.monotonic()
        self.entry.pid = self._process.pid
        self._enter("starting" if self.part.is_asked else "running")
        return self.entry.state

    def _cannot(self, lack: str, remedy: str) -> str:
        """Starting it would only fail, now and later: it is not tried again."""
        self._due = math.inf
        self.entry.reason = f"{lack}: {remedy}"
        self._enter("stopped")
        return f"cannot start: it {lack}; {remedy}, then start `headwater up` again"

    def answers(self) -> bool:
        """Whether it is there for others; a broker only if it serves this project's own folder."""
        if self.part.page_at is not None:
            return page_answers(self.part.page_at, timeout_s=0.5, is_secure=self.part.is_secure)
        assert self.part.answers_at is not None and self.part.data is not None
        own = cluster_id(self._work / self.part.data)
        return own is not None and cluster_at(self.part.answers_at, timeout_s=0.5) == own

    def _ended(self, code: int) -> str:
        ran_s = time.monotonic() - self._begun
        self._process, self.entry.pid = None, None
        self._failures = 1 if ran_s >= CALM_S else self._failures + 1
        wait_s = min(MOST_S, 0.5 * 2 ** min(self._failures - 1, 10))
        self._due = time.monotonic() + wait_s
        self.entry.restarts += 1
        self.entry.reason = self._log.last_words() or _ending(code)
        self._enter("waiting")
        return f"ended ({_ending(code)}); started again in {wait_s:g} s"

    def _enter(self, state: str) -> None:
        self.entry.state, self.entry.since = state, time.time()


class Supervisor:
    """All parts of one project."""

    def __init__(
        self, parts: Sequence[Part], work: Path, address: str, say: Callable[[str, str], None]
    ) -> None:
        """`say(part, sentence)` is told what happens; an empty part is the supervisor itself."""
        self._folder = work / record.FOLDER
        self._address = address
        self._say = say
        self._stopping = False
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take()
        self._keepers = [Keeper(part, self._folder, work) for part in parts]

    def stop(self) -> None:
        """Ask it to end; may be called from a signal handler."""
        self._stopping = True

    def run(self) -> int:
        """Until told to stop. 0 if every part went by itself."""
        try:
            require_free(keeper.part for keeper in self._keepers)
            while not self._stopping:
                self._look()
                time.sleep(LOOK_EVERY_S)
            return self._stop_all()
        finally:
            for keeper in self._keepers:
                keeper.wait_stopped(time.monotonic())
                keeper.close()
            record.remove(self._folder)
            self._lock.close()

    def _look(self) -> None:
        changed = False
        for keeper in self._keepers:
            # The log comes first: without it the others would only fail and wait.
            if not keeper.is_there and not self._log_is_ready(keeper):
                continue
            event = keeper.step()
            self._relay(keeper)
            if event is not None:
                changed = True
                self._say(keeper.part.name, event)
        if changed:
            self._write()

    def _log_is_ready(self, keeper: Keeper) -> bool:
        if keeper.part.page_at is not None:
            return True  # the page says itself that the log is away
        logs = [k for k in self._keepers if k.part.answers_at is not None]
        return keeper in logs or all(each.ready for each in logs)

    def _relay(self, keeper: Keeper) -> None:
        for line in keeper.lines():
            self._say(keeper.part.name, f"| {line}")

    def _stop_all(self) -> int:
        self._say("", "stopping; each part ends its work at hand")
        all_went = True
        for rank in sorted({keeper.part.stops for keeper in self._keepers}):
            group = [keeper for keeper in self._keepers if keeper.part.stops == rank]
            for keeper in group:
                keeper.tell_to_stop()
            deadline = time.monotonic() + STOP_PATIENCE_S
            for keeper in group:
                went = keeper.wait_stopped(deadline)
                self._relay(keeper)
                self._say(keeper.part.name, "stopped" if went else "did not stop, and was killed")
                all_went = all_went and went
        return 0 if all_went else 1

    def _write(self) -> None:
        record.write(self._folder, [keeper.entry for keeper in self._keepers], self._address)

    def _take(self) -> IO[bytes]:
        lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise AlreadyUp(
                "this project is up already", hint="see: headwater status; or stop the other one"
            ) from None
        return lock


def _ending(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"code {code}"
