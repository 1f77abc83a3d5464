"""Snapshot, then stream, for ever: the loop between a source and the log.

Called by the command line and by the supervisor. Whatever breaks for now (database restarted, broker
away, network cut) is tried again with a growing pause, each time from the position that the log holds;
what trying again cannot mend (a gap, a refusal, another run) ends the loop with its error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from headwater.capture.change import Batch, Position, Throttle, begins_again, in_snapshot
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Interrupted, StartOver
from headwater.capture.positions import Run
from headwater.capture.removal import forget
from headwater.capture.source import Guarded, Source, open_source, spare_replicas
from headwater.capture.traceparent import Traced
from headwater.capture.writer import Writer

FIRST_PAUSE_S, LONGEST_PAUSE_S, CALM_S = 0.2, 30.0, 10.0
# While a database is idle, its position is stored (and acknowledged) so often.
HEARTBEAT_S = 10.0
GUARD_EVERY_S = 30.0


@dataclass
class Status:
    """What a run has done so far; read by the command line while it goes on."""

    phase: str = "starting"
    rows: int = 0
    batches: int = 0
    restarts: int = 0
    position: Position | None = None


class Runner:
    """One capture, from its stored position on."""

    def __init__(
        self,
        config: CaptureConfig,
        say: Callable[[str], None] = lambda _sentence: None,
        *,
        open_source: Callable[[CaptureConfig], Source] = open_source,
        heartbeat_s: float = HEARTBEAT_S,
        guard_every_s: float = GUARD_EVERY_S,
    ) -> None:
        self._config = config
        self._say = say
        self._open_source = open_source
        self._heartbeat_s = heartbeat_s
        self._guard_every_s = guard_every_s
        self._guarded = 0.0
        self._run = Run()
        self._ensured: list[str] = []
        self._traced = _traced(config)
        self._throttle = Throttle(config.snapshot_rows_per_second)
        self._stopping = threading.Event()
        self.status = Status()
        self.source: Source | None = None

    def stop(self) -> None:
        """Leave after the batch at hand; may be called from any thread or signal handler."""
        self._stopping.set()

    def run(self, *, until_streaming: bool = False) -> None:
        """Go on until stopped; `until_streaming`: leave when the first snapshot is complete."""
        pause, is_lost = FIRST_PAUSE_S, False
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                if is_lost:
                    forget(self._config, self._run, self._stopping)
                    is_lost = False
                self._attempt(until_streaming)
                return
            except StartOver as error:
                self._say(f"{error}; a new snapshot begins")
                is_lost = True
            except Interrupted as error:
                self._guard_apart()
                if time.monotonic() - begun > CALM_S:
                    pause = FIRST_PAUSE_S
                self.status.restarts += 1
                self.status.phase = "waiting"
                self._say(f"{error}; trying again in {pause:.1f} s")
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _attempt(self, until_streaming: bool) -> None:
        config = self._config
        config.announced.reset()
        self._ensured = []
        writer = Writer(
            config.name,
            config.bootstrap,
            config.client,
            topic_config=config.topic_config,
            record_bytes_max=config.record_bytes_max,
            run=self._run,
            stopping=self._stopping,
        )
        try:
            position = self.status.position = writer.open()
            source = self.source = self._open_source(config)
            try:
                self._follow(source, writer, position, until_streaming)
            finally:
                self.source = None
                source.close()
        finally:
            writer.close()

    def _follow(
        self, source: Source, writer: Writer, position: Position | None, until_streaming: bool
    ) -> None:
        self._ensure_topics(source, writer)
        self._guard(source)
        if begins_again(position) and not getattr(source, "begins_again", False):
            raise CaptureError(
                f"{self._config.scheme} cannot begin again in topics that have rows already",
                hint=f"delete the topics {self._config.name}.* and run under another name",
            )
        if in_snapshot(position):
            self.status.phase = "snapshot"
            self._say("the first snapshot begins" if position is None else "the snapshot goes on")
            self._copy(source, writer, source.snapshot(position))
            position = self.status.position
            if self._stopping.is_set():
                return
        assert position is not None and not in_snapshot(position), "a snapshot ends with a position"
        if until_streaming:
            return
        self.status.phase = "streaming"
        self._say("streaming")
        self._copy(source, writer, source.stream(position))

    def _copy(self, source: Source, writer: Writer, batches: Iterator[Batch]) -> None:
        told = guarded = time.monotonic()
        for batch in batches:
            if time.monotonic() - guarded >= self._guard_every_s:
                self._guard(source)
                guarded = time.monotonic()
            known = self.status.position
            moved = batch.position != known and time.monotonic() - told >= self._heartbeat_s
            turned = known is None or in_snapshot(batch.position) != in_snapshot(known)
            if batch.records or moved or turned:
                self._ensure_topics(source, writer)
                if announced := self._config.announced.take():
                    batch.records[:0] = announced
                if self._traced is not None and self.status.phase == "streaming":
                    self._traced.mark(batch.records)
                writer.write(batch)
                for sentence in writer.take_said():
                    self._say(sentence)
                source.acknowledge(batch.position)
                told = time.monotonic()
                status = self.status
                status.position = batch.position
                status.rows += batch.rows
                status.batches += 1
                if self.status.phase == "snapshot" and not batch.streamed:
                    self._stopping.wait(self._throttle.pause_s(batch.rows, time.monotonic()))
                    spare_replicas(source, self._config, self._say, self._stopping)
            if self._stopping.is_set():
                return

    def _ensure_topics(self, source: Source, writer: Writer) -> None:
        config, topics = self._config, source.topics()
        if topics == self._ensured:  # as with nearly every batch
            return
        # What is told about all tables must be in one order: one partition.
        ordered = {config.transaction_topic, config.schema_topic}
        writer.ensure_topics((t for t in topics if t in ordered), config.topic_config, 1)
        if config.format == "avro" and config.registry is None:
            writer.ensure_topics([config.avro_topic], {"cleanup.policy": "compact"}, 1)
        writer.ensure_topics(topics, config.topic_config, config.partitions)
        self._ensured = topics

    def _guard(self, source: Source) -> None:
        if isinstance(source, Guarded) and (sentence := source.guard()) is not None:
            self._say(sentence)

    def _guard_apart(self) -> None:
        """While the log is away nobody reads the database: just then it must be watched."""
        if self._stopping.is_set() or time.monotonic() - self._guarded < self._guard_every_s:
            return
        self._guarded = time.monotonic()
        # Interrupted: the database is away too.
        with suppress(Interrupted), closing(self._open_source(self._config)) as source:
            self._guard(source)


def _traced(config: CaptureConfig) -> Traced | None:
    if not config.traced:
        return None
    never = (config.transaction_topic, config.schema_topic, config.avro_topic)
    return Traced(config.name, config.traced, never)
