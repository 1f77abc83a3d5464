"""Captures as they are: the position in the log, what the database keeps for them, how far a snapshot is.

Asked as `headwater capture status` asks. How far a snapshot is only its own process knows,
and says in its log.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.capture.change import Lag, Progress, phase_of
from headwater.capture.config import CaptureConfig, from_mapping
from headwater.capture.positions import read_positions
from headwater.capture.source import open_source
from headwater.client.log import Log
from headwater.console.watching.cache import Cached
from headwater.console.watching.parts import Parts, last_lines
from headwater.errors import HeadwaterError
from headwater.project.file import Project
from headwater.project.record import Entry

FOR_S = 3.0
SAMPLES_MAX = 600
Sample = tuple[float, int | None, float | None]
"""When (in ms), bytes and seconds behind the database."""
_SNAPSHOT = re.compile(
    r"snapshot of (?P<table>.+): (?P<rows>[\d,]+) of about (?P<expected>[\d,]+) rows, .*"
    r"\(table (?P<table_number>\d+) of (?P<tables>\d+)\)$"
)


@dataclass(frozen=True)
class CaptureNow:
    """One capture."""

    name: str
    database: str
    """The kind of database and, without secrets, which one."""
    tables: tuple[str, ...]
    phase: str
    """never run, snapshot, streaming, starting anew, or unknown."""
    position: dict[str, Any] | None = None
    stored_ms: int | None = None
    lag: Lag | None = None
    progress: Progress | None = None
    part: Entry | None = None
    """Its process, where the supervisor of this project runs it."""
    trouble: str | None = None

    @property
    def scheme(self) -> str:
        return self.database.partition(":")[0]


class Captures:
    """Those of the project."""

    def __init__(
        self, log: Log, client: Mapping[str, str], project: Project | None, parts: Parts
    ) -> None:
        self._log, self._client, self._project, self._parts = log, client, project, parts
        self._now = Cached(self._look, FOR_S)
        self._past: dict[str, deque[Sample]] = {}

    def past(self, name: str) -> list[Sample]:
        """How far behind it was, whenever somebody looked; the oldest first."""
        return list(self._past.get(name, ()))

    def now(self) -> list[CaptureNow]:
        return self._now.get()

    def glance(self) -> list[CaptureNow]:
        return self._now.glance([])

    def _look(self) -> list[CaptureNow]:
        if self._project is None or not self._project.captures:
            return []
        stored: dict[str, dict[str, Any]] = {}
        trouble: str | None = None
        try:
            stored = read_positions(self._log.bootstrap, self._project.captures, self._client)
        except HeadwaterError as error:
            trouble = str(error)
        return [
            self._one(name, section, stored.get(name), trouble)
            for name, section in self._project.captures.items()
        ]

    def _one(
        self, name: str, section: Any, stored: dict[str, Any] | None, trouble: str | None
    ) -> CaptureNow:
        part = self._parts.named(f"capture {name}")
        lag: Lag | None = None
        try:
            config = from_mapping(name, section, self._log.bootstrap)
            lag = _lag(config)
        except HeadwaterError as error:
            trouble = trouble or str(error)
        if lag is not None:
            sample = (time.time() * 1000, lag.bytes, lag.seconds)
            self._past.setdefault(name, deque(maxlen=SAMPLES_MAX)).append(sample)
        position = stored["position"] if stored else None
        phase = "unknown" if trouble and stored is None else phase_of(position)
        return CaptureNow(
            name=name,
            database=without_secrets(str(section.get("from", ""))),
            tables=tuple(section.get("tables", ())),
            phase=phase,
            position=None if position is None else _short(position),
            stored_ms=stored["ts_ms"] if stored else None,
            lag=lag,
            progress=_progress(part) if part and phase in ("never run", "snapshot") else None,
            part=part,
            trouble=trouble,
        )


def progress_in(lines: list[str]) -> Progress | None:
    """What the last line about a snapshot says."""
    for line in reversed(lines):
        if match := _SNAPSHOT.search(line):
            rows, expected = (int(match[n].replace(",", "")) for n in ("rows", "expected"))
            done = int(match["table_number"]) - 1
            return Progress(match["table"], rows, expected, done, int(match["tables"]))
    return None


def without_secrets(url: str) -> str:
    """A database's address as it may be shown: user and password left out."""
    return re.sub(r"//[^/@]*@", "//", url)


def _progress(part: Entry) -> Progress | None:
    return progress_in(last_lines(Path(part.log), 50)) if part.log else None


def _lag(config: CaptureConfig) -> Lag:
    source = open_source(config)
    try:
        return source.lag()
    finally:
        source.close()


def _short(position: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in position.items() if key != "schemas"}
