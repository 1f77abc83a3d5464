"""Records that an operator cannot use: to the dead letters, with the reason, each once.

Called in the tasks that read them, so that a record's letter is on disk before anything behind it is
handed on. How a letter is there once however often it is written: `client.dead_letter_writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.pipelines.context import Context

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""Of the records that `Sorting` looks at."""
Judge = Callable[[Mapping[str, Any]], str | None]
"""Why a record cannot be used; None where it can."""


@dataclass(frozen=True)
class Place:
    """Where letters go, and how the log is reached."""

    options: Mapping[str, str]
    topic: str | None
    """None: the source's name with `.dead-letters`."""


def place_of(context: Context) -> Place:
    """The dead letters of the view that is being built."""
    view = context.view
    context.dead_letters = context.dead_letters or view is not None
    return Place(context.kafka_options(), None if view is None else view.dead_letters)


@dataclass(frozen=True)
class Sorting:
    """For mapInArrow over records with Kafka's columns: the usable ones go on as they are."""

    judge: Judge
    place: Place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = batch.to_pylist()
            reasons = [self.judge(row) for row in rows]
            refused = [
                (row, reason)
                for row, reason in zip(rows, reasons, strict=True)
                if reason is not None
            ]
            put(self.place, refused)
            yield batch.filter(pa.array([reason is None for reason in reasons], pa.bool_()))


def put(place: Place, refused: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Records with Kafka's columns, each with the reason; on disk when this returns."""
    if not refused:
        return
    from headwater.client.dead_letter_writer import BadRecord, DeadLetterWriter
    from headwater.client.options import Options

    by_place: dict[tuple[str, int], list[BadRecord]] = {}
    for row, reason in refused:
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        time_ms = round(row["timestamp"].timestamp() * 1000)
        letter = BadRecord(row["offset"], time_ms, row["key"], row["value"], headers, reason)
        by_place.setdefault((row["topic"], row["partition"]), []).append(letter)
    settings = Options(place.options).client_settings()
    for (topic, partition), letters in by_place.items():
        DeadLetterWriter(settings, topic, partition, place.topic).put(letters)
