"""Names any turn of the event loop that takes too long, with its stack: while it lasts, nobody is served.

A thread asks the loop for a sign of life, and looks at the stack of the loop's thread while it has to
wait. A loop that waits for something to do is asked once a second only: to be woken for an answer would be
most of what an idle broker does. The broker starts one; `event.loop.turn.warn.ms` says what is too long, 0
turns it off. A turn is measured from the question on, so up to a quarter of the limit of it may be missing.

It must not ask for frames of a thread that runs (`sys._current_frames`): in Python 3.11 that ends the process
by a segmentation fault, now and then. faulthandler writes what it sees, and makes none.

Not every silence is a turn: a process that was stopped (SIGSTOP, a machine that sleeps) is silent, too.
Then this thread has not run either, and no processor time has gone by: such time does not count.
And on a machine with more work than processors the loop waits for its turn like everybody else: so it is
told how long its thread really ran in that time. Little of it: the machine is too busy, and not the turn
too long.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import platform
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from headwater.broker.health import Health

logger = logging.getLogger("headwater.broker")

ASKS_PER_LIMIT = 4
LOG_EVERY_S = 10.0
LONGER = 2
"""A turn so many times as long as any that was logged is logged at once."""
OFF_S = IDLE_ASK_S = 1.0
_EPOLL = {"x86_64": {b"232", b"281", b"441"}, "aarch64": {b"22", b"441"}}.get(
    platform.machine(), set()
)
"""The system calls in which a loop waits for something to do."""
FRAMES_MAX = 12
_THREAD = re.compile(r"^(?:Current t|T)hread 0x([0-9a-f]+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Watched(NamedTuple):
    """A loop, its thread, where the kernel tells in which call that is, and what stacks are written to."""

    loop: asyncio.AbstractEventLoop
    thread: int
    syscall: Path
    stacks: IO[bytes]


class Turn(NamedTuple):
    """As long as it took, and how much of that the loop's thread had a processor."""

    seconds: float
    ran_s: float


class Watchdog:
    """Watches the loop on which `start` is called."""

    def __init__(self, health: Health, limit_ms: Callable[[], int]) -> None:
        self._health = health
        self._limit_ms = limit_ms
        self._stopped = threading.Event()
        self._answered = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged_at = float("-inf")
        self._logged_s = 0.0
        self._unlogged = 0

    def start(self) -> None:
        watched = Watched(
            asyncio.get_running_loop(),
            threading.get_ident(),
            Path(f"/proc/self/task/{threading.get_native_id()}/syscall"),
            tempfile.TemporaryFile(),  # noqa: SIM115  closed by the thread
        )
        self._thread = threading.Thread(
            target=self._watch, args=(watched,), name="headwater-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._answered.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, watched: Watched) -> None:
        with watched.stacks:
            self._ask_until_stopped(watched)

    def _ask_until_stopped(self, watched: Watched) -> None:
        asked_at = float("-inf")
        while not self._stopped.is_set():
            limit_ms = self._limit_ms()
            limit_s = limit_ms / 1000
            if limit_s <= 0:
                self._stopped.wait(OFF_S)
                continue
            self._health.loop.limit_ms = limit_ms
            if time.monotonic() - asked_at < IDLE_ASK_S and is_waiting(watched):
                self._stopped.wait(limit_s / ASKS_PER_LIMIT)
                continue
            asked_at = time.monotonic()
            try:
                turn, stack = self._ask(watched, limit_s)
            except RuntimeError:  # the loop is closed
                return
            if self._stopped.is_set():
                return
            self._judge(turn, limit_s, stack)
            self._stopped.wait(limit_s / ASKS_PER_LIMIT)

    def _ask(self, watched: Watched, limit_s: float) -> tuple[Turn, str]:
        """How long the loop took to answer, and the deepest stack seen meanwhile: the others
        were between two callbacks, and tell nothing."""
        step_s, stack = limit_s / ASKS_PER_LIMIT, ""
        ran_before = ran_s(watched.thread)
        self._answered.clear()
        watched.loop.call_soon_threadsafe(self._answered.set)
        turn_s, answered = 0.0, False
        while not answered and not self._stopped.is_set():  # a stop waits for us: no answer comes
            before, before_cpu = time.monotonic(), time.process_time()
            answered = self._answered.wait(step_s)
            passed, cpu = time.monotonic() - before, time.process_time() - before_cpu
            turn_s += counted(passed, cpu, step_s)
            if not answered:
                stack = max(stack, stack_of(watched), key=lambda seen: seen.count("\n"))
        return Turn(turn_s, min(ran_s(watched.thread) - ran_before, turn_s)), stack

    def _judge(self, turn: Turn, limit_s: float, stack: str) -> None:
        milliseconds, ran_ms = round(turn.seconds * 1000), round(turn.ran_s * 1000)
        if turn.seconds < limit_s:
            if milliseconds * 2 > self._health.loop.limit_ms:
                self._health.lasted(milliseconds, ran_ms)
            return
        stack = stack or "(it was over before it could be looked at)"
        self._health.turned(milliseconds, ran_ms, stack)
        now = time.monotonic()
        if now - self._logged_at < LOG_EVERY_S and turn.seconds < self._logged_s * LONGER:
            self._unlogged += 1
            return
        more = f"; {self._unlogged} others since the last such line" if self._unlogged else ""
        sentence = "the event loop was busy for %d ms (its thread ran for %d of them)%s:\n%s"
        logger.warning(sentence, milliseconds, ran_ms, more, stack)
        self._logged_at, self._unlogged = now, 0
        self._logged_s = max(turn.seconds, self._logged_s)


def ran_s(thread: int) -> float:
    """Processor time that a thread has had until now."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def counted(passed_s: float, cpu_s: float, step_s: float) -> float:
    """How much of the time that went by while waiting for `step_s` is the loop's.

    This thread should have been back after `step_s`. It was not: either the loop's thread kept the
    interpreter to itself (the processor was busy), or the whole process was not running.
    """
    late_s = passed_s - step_s
    if late_s > step_s and cpu_s < late_s / 2:
        return step_s
    return passed_s


def is_waiting(watched: Watched) -> bool:
    """Whether the loop has nothing to do at this moment; False also where it cannot be told."""
    try:
        return watched.syscall.read_bytes().split(maxsplit=1)[0] in _EPOLL
    except OSError:
        return False


def stack_of(watched: Watched) -> str:
    """Where its thread is, the innermost call last; nothing where the disk takes no file."""
    try:
        watched.stacks.seek(0)
        watched.stacks.truncate()
        faulthandler.dump_traceback(watched.stacks, all_threads=True)
        watched.stacks.seek(0)
        seen = _THREAD.split(watched.stacks.read().decode("utf-8", "backslashreplace"))
    except OSError:
        return ""
    for name, frames in zip(seen[1::2], seen[2::2], strict=True):
        if int(name, 16) == watched.thread:
            innermost = _FRAME.findall(frames)[:FRAMES_MAX]
            return "\n".join(f"  {path}:{line} {name}" for path, line, name in reversed(innermost))
    return ""
