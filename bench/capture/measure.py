"""Wait for rows in a topic, and what that took: time, CPU seconds of the process, peak memory."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
from confluent_kafka import Consumer

from bench.capture.contestants import Contestant

DEADLINE_S = 600.0


@dataclass(frozen=True)
class Figures:
    rows: int
    seconds: float
    cpu_seconds: float
    peak_mb: float
    first_s: float
    """From the start of the process (or of the writing) to the first record that a reader sees."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    def as_json(self) -> dict[str, float]:
        if self.p50_ms:
            return {"p50_ms": round(self.p50_ms, 2), "p99_ms": round(self.p99_ms, 2)}
        return {
            "rows": self.rows,
            "rows_per_s": round(self.rows / self.seconds),
            "rows_per_cpu_s": round(self.rows / self.cpu_seconds),
            "cpu_s_per_million": round(1e6 * self.cpu_seconds / self.rows, 2),
            "peak_mb": round(self.peak_mb),
            "first_s": round(self.first_s, 2),
        }

    def line(self) -> str:
        if self.p50_ms:
            return f"p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms"
        rate, per_cpu = self.rows / self.seconds, self.rows / self.cpu_seconds
        return (
            f"{rate:>9,.0f} rows/s {per_cpu:>9,.0f} rows/CPU s {self.peak_mb:>6,.0f} MB "
            f"first after {self.first_s:4.1f} s"
        )


class Reader:
    """Reads a topic from where it was, as committed data."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"bench-{topic}-{time.time_ns()}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": True,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def rows(self, timeout_s: float = 0.05, count: int = 5000) -> list[bytes]:
        found = self._consumer.consume(count, timeout_s)
        values = (message.value() for message in found if message.error() is None)
        return [value for value in values if value]

    def next(self, timeout_s: float) -> bytes | None:
        """The next one as soon as it is here: `rows` gathers until its time is up, and would add that."""
        message = self._consumer.poll(timeout_s)
        return None if message is None or message.error() is not None else message.value()

    def close(self) -> None:
        self._consumer.close()


def follow(
    process: psutil.Process,
    reader: Reader,
    rows: int,
    contestant: Contestant,
    known: set[int],
    write: Callable[[], None] | None = None,
) -> Figures:
    """Until so many new rows have come; from the process' start, or from the start of `write`."""
    begun, used_before = process.create_time(), 0.0
    writer = None
    if write is not None:
        begun, used_before = time.time(), sum(process.cpu_times()[:2])
        writer = threading.Thread(target=write)
        writer.start()
    # Debezium repeats some after a restart: each row counts once.
    numbers: set[int] = set()
    first, peak = 0.0, 0
    deadline = time.monotonic() + DEADLINE_S
    while len(numbers) < rows:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError(f"{contestant.kind} ended: {contestant.said()}")
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{contestant.kind}: {len(numbers)} of {rows} rows; {contestant.said()}"
            )
        fresh = [n for n in map(_number, reader.rows()) if n not in known]
        if fresh and not numbers:
            first = time.time()
        numbers.update(fresh)
        peak = max(peak, process.memory_info().rss)
    ended = time.time()
    used = process.cpu_times()
    known |= numbers
    if writer is not None:
        writer.join()
    return Figures(
        len(numbers),
        ended - (first if write is None else begun),
        max(used.user + used.system - used_before, 0.01),
        peak / 1e6,
        first - begun,
    )


def latency(
    contestant: Contestant, reader: Reader, insert: Callable[[int], None], count: int
) -> Figures:
    """p50 and p99 in ms, at 200 commits/s: from before the commit until a reader has the record."""
    sent: dict[int, float] = {}
    got: dict[int, float] = {}

    def write() -> None:
        due = time.monotonic()
        for n in range(count):
            due += 0.005
            time.sleep(max(0.0, due - time.monotonic()))
            number = 1_000_000_000 + n
            sent[number] = time.monotonic()
            insert(number)

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 120
    while len(got) < count and time.monotonic() < deadline:
        value = reader.next(0.1)
        if value is not None:
            got.setdefault(_number(value), time.monotonic())
    writer.join()
    times = sorted(1000 * (got[n] - sent[n]) for n in sent if n in got)
    if len(times) < count:
        raise RuntimeError(f"{contestant.kind}: {count - len(times)} rows did not come")
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    return Figures(count, 1.0, 1.0, 0.0, 0.0, middle, late)


def _number(value: bytes) -> int:
    """The row's id; found, not parsed, as the reader shares the cores."""
    at = value.index(b'"id":', value.index(b'"after"')) + 5
    return int(value[at : value.index(b",", at)])
