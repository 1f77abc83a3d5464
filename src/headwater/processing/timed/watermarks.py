"""What Spark's watermark is for a batch, from the query's checkpoint: Spark notes it before the batch runs.

Read on the driver, once per batch. `offsets/N` says how far batch N goes and which watermark it has:

    v1
    {"batchWatermarkMs":1767261600000,…}
    {"orders":{"0":17},"#":{…}}

Spark lets a batch's events be late by the watermark of the batch *before* (each stateful operator of a
query must see what the one in front of it still gave out), and closes windows by the batch's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError


class NoWatermark(HeadwaterError):
    """A checkpoint that does not tell which watermark a batch has."""


def late_micros(checkpoint: str, end: Mapping[str, Any]) -> int:
    """What is late in the batch whose source ends there, in microseconds since 1970; 0 at first."""
    folder = Path(checkpoint) / "offsets"
    batch = _batch_ending_at(folder, end)
    return 0 if batch == 0 else _watermark_ms(folder / str(batch - 1)) * 1000


def _batch_ending_at(folder: Path, end: Mapping[str, Any]) -> int:
    """The newest batch, as a rule; an older one only if Spark plans it again."""
    try:
        batches = sorted((int(p.name) for p in folder.iterdir() if p.name.isdigit()), reverse=True)
    except OSError as error:
        raise NoWatermark(
            f"the checkpoint {folder.parent} cannot be read: {error}",
            hint="late events are found with the help of the checkpoint, which must be a folder that "
            "the driver sees; with late=None Spark drops them",
        ) from error
    for batch in batches:
        if any(json.loads(line) == end for line in _lines(folder / str(batch))[2:] if line != "-"):
            return batch
    raise NoWatermark(f"{folder} has no batch that ends at {json.dumps(end)}")


def _watermark_ms(path: Path) -> int:
    return int(json.loads(_lines(path)[1])["batchWatermarkMs"])


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) < 2 or lines[0] != "v1":
        raise NoWatermark(f"{path} is not of a version known here: {lines[:1]}")
    return lines
