"""One process of a project: started, watched, started again, paused; the supervisor turns it.

waiting ──▶ starting ──ready──▶ running ──ended──▶ waiting, longer each time
                                   │
                             pause ▼              resume
                                pausing ──▶ paused ──▶ waiting
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from pathlib import Path

from headwater.log.meta import cluster_id
from headwater.project import packages, record
from headwater.project.control import Control, Wish
from headwater.project.hello import Answer, cluster_at, hello, page_answers
from headwater.project.parent_death import ends_with_parent
from headwater.project.parts import Part
from headwater.project.record import PartLog

STOP_PATIENCE_S = 60.0
"""A batch of Spark on a busy machine takes its time, and should be ended by itself."""
CALM_S = 30.0
"""A part that has run for so long has recovered: its next failure counts as its first."""
MOST_S = 30.0


class SupervisedPart:
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
        self._pause: Wish | None = None
        self._restart: Wish | None = None
        """Asked for, and not yet done."""
        self._restarts_done: int | None = None
        self._kill_at = math.inf

    def ask(self, control: Control) -> None:
        """What people want of it now; a restart that was asked for before this supervisor is over."""
        self._pause = control.paused.get(self.part.name)
        wish = control.restarts.get(self.part.name)
        count = 0 if wish is None else wish.count
        if self._restarts_done is not None and count != self._restarts_done:
            self._restart = wish
        self._restarts_done = count

    @property
    def ready(self) -> bool:
        return self.entry.state == "running"

    @property
    def is_there(self) -> bool:
        return self._process is not None

    @property
    def is_held(self) -> bool:
        """Whether somebody wants it paused."""
        return self._pause is not None

    def step(self) -> str | None:
        """Do what is due; a sentence when something has changed."""
        if self._pause is not None:
            return self._step_pause(self._pause)
        if self.entry.state in ("pausing", "paused"):
            return self._step_resume()
        if self._restart is not None:
            return self._step_restart(self._restart)
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

    def _step_pause(self, wish: Wish) -> str | None:
        self._restart = None
        is_over = self.entry.state == "paused" and self._process is None
        if is_over or not self._has_gone("pausing"):
            return None
        self.entry.asked_by = wish.by
        self._enter("paused")
        return f"paused by {wish.by}"

    def _step_resume(self) -> str | None:
        if not self._has_gone("pausing"):
            return None  # resumed before it had ended: it ends, and starts again
        self.entry.asked_by, self._due, self._failures = None, 0.0, 0
        self._enter("waiting")
        return "resumed"

    def _step_restart(self, wish: Wish) -> str | None:
        if not self._has_gone("restarting"):
            return None
        self._restart, self._due, self._failures = None, 0.0, 0
        self.entry.restarts += 1
        self.entry.reason = f"restarted by {wish.by}"
        self._enter("waiting")
        return self.entry.reason

    def _has_gone(self, state: str) -> bool:
        """Tells it to end, once; whether it has. One that does not is killed when its time is up."""
        if self._process is None:
            return True
        if self.entry.state != state:
            self._enter(state)
            self._kill_at = time.monotonic() + STOP_PATIENCE_S
            self.tell_to_stop()
        if self._process.poll() is None:
            if time.monotonic() > self._kill_at:
                self._process.kill()
            return False
        self._process, self.entry.pid = None, None
        return True

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
                ends_with_parent(*self.part.command),
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
        if self.part.is_secure:  # whose log it is it tells nobody before a login
            return hello(self.part.answers_at, timeout_s=0.5) is not Answer.NOBODY
        own = cluster_id(self._work / self.part.data)
        return own is not None and cluster_at(self.part.answers_at, timeout_s=0.5) == own

    def _ended(self, code: int) -> str:
        ran_s = time.monotonic() - self._begun
        self._process, self.entry.pid = None, None
        self._failures = 1 if ran_s >= CALM_S else self._failures + 1
        wait_s = min(MOST_S, 0.5 * 2 ** min(self._failures - 1, 10))
        if ran_s >= CALM_S:
            wait_s = 0.0  # everybody waits for it, and nothing says that it will fail again
        self._due = time.monotonic() + wait_s
        self.entry.restarts += 1
        said = "" if code < 0 else self._log.last_words()  # who is killed says nothing of it
        self.entry.reason = said or _ending(code)
        self._enter("waiting")
        return (
            f"ended ({_ending(code)}); started again {f'in {wait_s:g} s' if wait_s else 'at once'}"
        )

    def _enter(self, state: str) -> None:
        self.entry.state, self.entry.since = state, time.time()


def _ending(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"code {code}"
