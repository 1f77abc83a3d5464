"""How far a micro-batch goes, from the query's checkpoint: Spark writes that before the batch runs.

Read by the driver once per batch. The file `offsets/BATCH` of a checkpoint has a line with its version, one
with settings, and one for each source with the offsets where the batch ends:

    v1
    {"batchWatermarkMs":0,…}
    {"orders":{"0":17,"1":4},"#":{…}}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.local_path import for_spark, local_path
from headwater.views.source_transactions import first_held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoOffsets(HeadwaterError):
    """A checkpoint that does not say how far a batch goes."""


def last_batch(folder: Path) -> int | None:
    """The newest batch in one of a checkpoint's logs, `offsets` or `commits`."""
    if not folder.is_dir():
        return None
    return max((int(each.name) for each in folder.iterdir() if each.name.isdecimal()), default=None)


def position_of(checkpoint: str, batch: int, spark: SparkSession | None = None) -> Position:
    """Up to where the sources of a batch are read. `spark` reads it where that is no local file."""
    path = f"{checkpoint}/offsets/{batch}"
    try:
        found = parse(Path(path).read_text(encoding="utf-8"))
        return _without_held(found, checkpoint, batch)
    except OSError as error:
        if spark is None or local_path(checkpoint) is not None:
            raise NoOffsets(f"{path} cannot be read: {error}") from error
    return parse("\n".join(row[0] for row in spark.read.text(for_spark(path)).collect()))


def _without_held(position: Position, checkpoint: str, batch: int) -> Position:
    """Where a batch held back records of unfinished transactions, the view is only that far."""
    held = first_held(checkpoint, batch)
    if held is None:
        return position
    marks, first = held
    return Position(
        {
            topic: {p: min(o, first.get(topic, {}).get(p, o)) for p, o in partitions.items()}
            for topic, partitions in position.offsets.items()
            if topic != marks
        }
    )


def parse(text: str) -> Position:
    """Of a topic that is read twice, the earlier offset: all before it has been seen by both."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != "v1":
        raise NoOffsets(
            f"an offset log that begins with {lines[:1]} is not of a version known here"
        )
    found: dict[str, dict[int, int]] = {}
    for line in lines[2:]:
        for topic, partitions in _source(line).items():
            places = found.setdefault(topic, {})
            for partition, offset in partitions.items():
                place = int(partition)
                places[place] = min(offset, places.get(place, offset))
    return Position(found)


def _source(line: str) -> dict[str, dict[str, int]]:
    """Kafka's form; nothing for a source of another kind. Notes under "#" are not partitions."""
    try:
        said: Any = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    return {
        topic: partitions
        for topic, partitions in said.items()
        if isinstance(partitions, dict)
        and partitions
        and all(p.isdigit() and isinstance(o, int) for p, o in partitions.items())
    }
