"""What `event_stream` tells its source, as options for Spark; those without our mark are the log's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.processing.clocks import Corrected
from headwater.processing.windows import Window

MARK = "headwater.events."


@dataclass(frozen=True)
class Timing:
    """How the events of one stream are in time. Lengths are microseconds."""

    time: str
    """The column of the value that says when an event was."""
    lateness: int
    corrected: Corrected | None = None
    window: Window | None = None
    ahead: int | None = None
    """How far an event may be ahead of its record's timestamp."""
    idle: int | None = None
    """After how long without records time goes on by itself."""
    late: str | None = None
    """The topic for what comes too late; None: Spark drops it."""
    keep: int = 0
    """For how long after its end a window can still be corrected."""
    checkpoint: str | None = None
    """Where the watermark is noted; None: nobody looks what is late, and Spark drops it."""
    clock: str | None = None
    """A file with the time in milliseconds, where a test turns the clock."""

    def to_options(self) -> dict[str, str]:
        said = {
            "time": self.time,
            "lateness": str(self.lateness),
            "sent": self.corrected.sent if self.corrected else None,
            "received": self.corrected.received if self.corrected else None,
            "window": self.window.to_json() if self.window else None,
            "ahead": None if self.ahead is None else str(self.ahead),
            "idle": None if self.idle is None else str(self.idle),
            "late": self.late,
            "keep": str(self.keep),
            "checkpoint": self.checkpoint,
            "clock": self.clock,
        }
        return {MARK + name: value for name, value in said.items() if value is not None}

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Timing:
        """From the reader's options, whose names Spark may have put into small letters."""
        said = {
            name.lower().removeprefix(MARK): value
            for name, value in options.items()
            if name.lower().startswith(MARK)
        }
        sent, window = said.get("sent"), said.get("window")
        return cls(
            time=said["time"],
            lateness=int(said["lateness"]),
            corrected=Corrected(said["time"], sent, said.get("received")) if sent else None,
            window=Window.from_json(window) if window else None,
            ahead=_number(said.get("ahead")),
            idle=_number(said.get("idle")),
            late=said.get("late"),
            keep=int(said["keep"]),
            checkpoint=said.get("checkpoint"),
            clock=said.get("clock"),
        )


def of_the_log(options: Mapping[str, str]) -> dict[str, str]:
    """The options without ours."""
    return {name: value for name, value in options.items() if not name.lower().startswith(MARK)}


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
