"""A capture that starts over, or ends for good: what the database and the log keep for it goes.

Called by the command line, and by `runner` where a gap is to be followed by a new snapshot.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from headwater.capture import dead_letters
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted
from headwater.capture.positions import Run
from headwater.capture.source import open_source
from headwater.capture.writer import Writer

FORGET_S = 20.0
"""A run that was fenced notices at its next heartbeat, and lets go of what it holds."""


def forget(
    config: CaptureConfig, run: Run | None = None, stopping: threading.Event | None = None
) -> None:
    """Make the next run begin with a snapshot: what the database keeps goes, and the position."""
    writer = Writer(config.name, config.bootstrap, config.client, run=run, stopping=stopping)
    try:
        # Fences a run that still goes on; it lets go of the slot when it notices.
        stored = writer.open()
        with closing(open_source(config)) as source:
            _patiently(source.forget, stopping)
        if stored is not None:
            writer.forget()
    finally:
        writer.close()


def remove(config: CaptureConfig, *, topics: bool = False) -> list[str]:
    """End a capture for good: what the database keeps for it goes; with `topics`, so does what the log
    has. What was done, in sentences."""
    writer = Writer(config.name, config.bootstrap, config.client)
    try:
        stored = writer.open()  # fences a run that still goes on
        source = open_source(config)
        try:
            named = source.topics() if topics else []
            stays = _patiently(source.forget)
        finally:
            source.close()
        said = [stays or "the database keeps nothing for it any more"]
        if topics:
            prefix = f"{config.name}."
            extra = ("transaction", "schema-changes", "avro-schemas", "message", "requests")
            own = {topic for topic in named if topic.startswith(prefix)}
            own |= {dead_letters.topic_of(config.name), *(f"{prefix}{name}" for name in extra)}
            gone = writer.delete_topics(own)
            said.append(f"topics deleted: {', '.join(gone) or 'none'}")
            writer.erase()
        elif stored is not None:
            # Rows that go meanwhile must not stay with readers, should there be another run.
            writer.forget()
            said.append("its topics stay; another run would start over, with truncate events")
        return said
    finally:
        writer.close()


def _patiently(
    act: Callable[[], str | None], stopping: threading.Event | None = None
) -> str | None:
    stopping, deadline = stopping or threading.Event(), time.monotonic() + FORGET_S
    while True:
        try:
            return act()
        except Interrupted:
            if stopping.wait(0.2) or time.monotonic() > deadline:
                raise
