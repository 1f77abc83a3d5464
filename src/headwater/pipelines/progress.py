"""What Spark says about a query, in the words of the progress topic; pure, no I/O.

Called by `query`. Spark reports every micro-batch; several reports become one record, in which counts
are summed and states are the last. The record's fields are the table in docs/pipelines.md.

A report's `endOffset` is where the sink has committed: Spark writes the batch to its commit log
first and reports then. So it can be given to the log as the position of a consumer group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Partition = tuple[str, int]
Report = Mapping[str, Any]
TOPIC = "__headwater_progress"
DEAD_LETTERS_CONFIG = {"retention.ms": "-1"}
TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 60 * 60 * 1000)}


def position_of(report: Report) -> dict[Partition, int]:
    """Up to where a report's sources have been read; of a topic read twice, the earlier."""
    found: dict[Partition, int] = {}
    for source in report.get("sources", ()):
        for place, offset in _offsets(source.get("endOffset")).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def begin_of(report: Report) -> dict[Partition, int]:
    """Where those partitions stood before a report's batch that had something for it."""
    found: dict[Partition, int] = {}
    for source in report.get("sources", ()):
        end = _offsets(source.get("endOffset"))
        for place, offset in _offsets(source.get("startOffset")).items():
            if end.get(place, offset) > offset:
                found[place] = min(offset, found.get(place, offset))
    return found


def shown_ms(report: Report) -> int:
    """When the target had a report's batch: Spark says when it began, and how long it took."""
    began = datetime.fromisoformat(str(report["timestamp"]))
    took = (report.get("durationMs") or {}).get("triggerExecution") or 0
    return round(began.timestamp() * 1000) + int(took)


def _offsets(said: Any) -> dict[Partition, int]:
    """Kafka's form `{"topic": {"0": 17}}`, also as text; nothing for sources of another kind.

    What else is in it (headwater's source keeps notes under "#") has no partition numbers.
    """
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return {}
    if not isinstance(said, dict):
        return {}
    found = {}
    for topic, partitions in said.items():
        if isinstance(partitions, dict):
            for partition, offset in partitions.items():
                if str(partition).isdigit() and isinstance(offset, int):
                    found[topic, int(partition)] = offset
    return found


@dataclass
class Gathered:
    """The reports since the last record."""

    batches: int = 0
    input_rows: int = 0
    late_rows: int = 0
    batch_ms_max: int = 0
    last: Report = field(default_factory=dict)
    last_batch: Report | None = None
    """The last report of a batch that had rows."""

    def add(self, report: Report) -> None:
        self.last = report
        if report.get("numInputRows"):
            self.last_batch = report
        if report.get("numInputRows", 0) or report.get("durationMs", {}).get("addBatch"):
            self.batches += 1
            self.batch_ms_max = max(self.batch_ms_max, int(report.get("batchDuration") or 0))
        self.input_rows += int(report.get("numInputRows") or 0)
        self.late_rows += sum(
            int(each.get("numRowsDroppedByWatermark") or 0) for each in _operators(report)
        )


def record(
    gathered: Gathered,
    *,
    query: str,
    to: str,
    at_ms: int,
    lag_records: int | None,
    lag_ms: int | None,
    freshness_ms: int | None,
    dead_letter_rows: int | None,
    position: Mapping[Partition, int],
) -> dict[str, object]:
    """One record of the progress topic."""
    last = gathered.last
    return {
        "event": "progress",
        "query": query,
        "to": to,
        "at_ms": at_ms,
        "run_id": last.get("runId"),
        "batch_id": last.get("batchId"),
        "batches": gathered.batches,
        "batch_ms_max": gathered.batch_ms_max,
        "input_rows": gathered.input_rows,
        "input_rows_per_second": last.get("inputRowsPerSecond"),
        "processed_rows_per_second": last.get("processedRowsPerSecond"),
        "output_rows": last.get("sink", {}).get("numOutputRows"),
        "durations_ms": dict(last.get("durationMs") or {}),
        "lag_records": lag_records,
        "lag_seconds": None if lag_ms is None else lag_ms / 1000,
        "freshness_seconds": None if freshness_ms is None else freshness_ms / 1000,
        "watermark": (last.get("eventTime") or {}).get("watermark"),
        "state_rows": sum(int(e.get("numRowsTotal") or 0) for e in _operators(last)),
        "state_bytes": sum(int(e.get("memoryUsedBytes") or 0) for e in _operators(last)),
        "late_rows": gathered.late_rows,
        "dead_letter_rows": dead_letter_rows,
        "position": nested(position),
    }


def event(kind: str, *, query: str, to: str, at_ms: int, **more: object) -> dict[str, object]:
    """A record that says what became of a query: started, failed, refused, finished, stopped."""
    return {"event": kind, "query": query, "to": to, "at_ms": at_ms, **more}


def behind(
    position: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> dict[Partition, int]:
    """The position of those partitions that have more to read."""
    return {place: o for place, o in position.items() if ends.get(place, o) > o}


def lag_of(position: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
    return sum(max(0, ends[place] - position.get(place, 0)) for place in ends)


def nested(position: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(position.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _operators(report: Report) -> Iterable[Mapping[str, Any]]:
    return report.get("stateOperators") or ()
