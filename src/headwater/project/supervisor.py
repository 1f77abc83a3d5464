"""`headwater up`: start the parts of a project in order, keep them running, stop them in order.

One thread looks at every part several times a second. A part that ends is started again, at once if it
had run for long, else after a wait that doubles with each failure; the others go on, as each of them
finds the log again by itself. What a part prints goes to its own file and, with its name before each
line, to whoever is looking.

    waiting ──▶ starting ──ready──▶ running ──ended──▶ waiting, longer each time
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from headwater import owner_only
from headwater.errors import HeadwaterError
from headwater.project import record
from headwater.project.control import Watched
from headwater.project.hello import Answer, hello
from headwater.project.parts import Part
from headwater.project.ports import cannot_listen
from headwater.project.processes.process import STOP_PATIENCE_S, SupervisedPart

LOOK_EVERY_S = 0.1
PATIENCE_S = 5.0
"""Parts of a supervisor that has just been killed let go of their addresses within moments."""


class AlreadyUp(HeadwaterError):
    """Another supervisor has this project."""


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
        owner_only.make_folder(self._folder)
        self._lock = self._take()
        self._supervised = [SupervisedPart(part, self._folder, work) for part in parts]
        self._control = Watched(self._folder)
        self._trouble: str | None = None

    def stop(self) -> None:
        """Ask it to end; may be called from a signal handler."""
        self._stopping = True

    def run(self) -> int:
        """Until told to stop. 0 if every part went by itself."""
        try:
            require_free(supervised.part for supervised in self._supervised)
            self._write()  # before any part that waits by it
            while not self._stopping:
                self._look()
                time.sleep(LOOK_EVERY_S)
            return self._stop_all()
        finally:
            for supervised in self._supervised:
                supervised.wait_stopped(time.monotonic())
                supervised.close()
            record.remove(self._folder)
            self._lock.close()

    def _look(self) -> None:
        changed = False
        control = self._control.look()
        if self._control.trouble != self._trouble:
            self._trouble = self._control.trouble
            self._say("", self._trouble or "what people ask for can be read again")
        for supervised in self._supervised:
            supervised.ask(control)
            before = supervised.entry.state
            # The log comes first: without it the others would only fail and wait.
            if not (supervised.is_there or supervised.is_held or self._log_is_ready(supervised)):
                continue
            event = supervised.step()
            self._relay(supervised)
            changed = changed or supervised.entry.state != before
            if event is not None:
                changed = True
                self._say(supervised.part.name, event)
        if changed:
            self._write()

    def _log_is_ready(self, supervised: SupervisedPart) -> bool:
        if supervised.part.page_at is not None or supervised.part.waits_for_log:
            return True  # the page says itself that the log is away; queries have Java to start
        logs = [k for k in self._supervised if k.part.answers_at is not None]
        return supervised in logs or all(each.ready for each in logs)

    def _relay(self, supervised: SupervisedPart) -> None:
        for line in supervised.lines():
            self._say(supervised.part.name, f"| {line}")

    def _stop_all(self) -> int:
        self._say("", "stopping; each part ends its work at hand")
        all_went = True
        for rank in sorted({supervised.part.stops for supervised in self._supervised}):
            group = [supervised for supervised in self._supervised if supervised.part.stops == rank]
            for supervised in group:
                supervised.tell_to_stop()
            deadline = time.monotonic() + STOP_PATIENCE_S
            for supervised in group:
                went = supervised.wait_stopped(deadline)
                self._relay(supervised)
                self._say(
                    supervised.part.name, "stopped" if went else "did not stop, and was killed"
                )
                all_went = all_went and went
        return 0 if all_went else 1

    def _write(self) -> None:
        record.write(
            self._folder, [supervised.entry for supervised in self._supervised], self._address
        )

    def _take(self) -> IO[bytes]:
        lock = owner_only.opened(self._folder / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise AlreadyUp(
                "this project is up already", hint="see: headwater status; or stop the other one"
            ) from None
        return lock


class Taken(HeadwaterError):
    """Somebody else has an address of this project."""


def require_free(parts: Iterable[Part]) -> None:
    """Raises Taken for the first address at which nothing could listen: a project beside another one would
    write into it, as every new one says 9092 and clients tell brokers apart only by their cluster id."""
    deadline = time.monotonic() + PATIENCE_S
    for part in parts:
        address = part.address
        if address is None:
            continue
        while (why := cannot_listen(address)) is not None:
            if time.monotonic() > deadline:
                raise _taken(part, address, why)
            time.sleep(LOOK_EVERY_S)


def _taken(part: Part, address: str, why: str) -> Taken:
    there = hello(address, timeout_s=1.0)
    sentence = why if there is Answer.NOBODY else f"{address} is taken by {there.value}"
    return Taken(
        f"{sentence}; nothing was started",
        hint=f"stop what is there, or give another `listen` in [{part.section}]",
    )
