"""Where to start and where to end: `startingOffsets` and its relatives, parsed.

`plan` turns a `Where` into offsets with the cluster's help. As in Spark's Kafka source a timestamp goes
before offsets by timestamp, and these before plain offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.client.constants import EARLIEST, LATEST, TopicPartition
from headwater.client.errors import BadOption
from headwater.client.options import Options

WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class Where:
    """`all`: EARLIEST, LATEST or a timestamp for every partition; else `each` names them all.

    `option` is what the user wrote, for error messages.
    """

    option: str
    all: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    by_time: bool = False


def starting(options: Options, streaming: bool) -> Where:
    return _parse(options, "starting", "latest" if streaming else "earliest", not streaming)


def ending(options: Options) -> Where:
    return _parse(options, "ending", "latest", True)


def _parse(options: Options, stem: str, default: str, batch: bool) -> Where:
    timestamp = options.number(f"{stem}Timestamp", least=0)
    if timestamp is not None:
        return Where(f"{stem}Timestamp", timestamp, by_time=True)
    by_time = options.text(f"{stem}OffsetsByTimestamp")
    if by_time is not None:
        each = _partitions(f"{stem}OffsetsByTimestamp", by_time, 0)
        return Where(f"{stem}OffsetsByTimestamp", each=each, by_time=True)
    name = f"{stem}Offsets"
    text = (options.text(name) or default).strip()
    word = WORDS.get(text.lower())
    if word is None:
        each = _partitions(name, text, EARLIEST)
        _refuse(name, each, stem, batch)
        return Where(name, each=each)
    if batch and word == (LATEST if stem == "starting" else EARLIEST):
        raise BadOption(
            f"{name} is {text!r}, which leaves a batch query nothing to read.",
            hint="Use earliest to latest, offsets in JSON, or a timestamp.",
        )
    return Where(name, word)


def _refuse(name: str, each: Mapping[TopicPartition, int], stem: str, batch: bool) -> None:
    never = LATEST if stem == "starting" else EARLIEST
    if batch and never in each.values():
        raise BadOption(f"{name} has {never} for a partition, which leaves nothing to read there.")


def _partitions(name: str, text: str, least: int) -> dict[TopicPartition, int]:
    try:
        found = {
            (topic, int(partition)): _whole(value)
            for topic, partitions in _object(json.loads(text)).items()
            for partition, value in _object(partitions).items()
        }
    except ValueError:
        raise BadOption(
            f"{name} is {text!r}.",
            hint='It must be "earliest", "latest" or JSON as {"orders": {"0": 23, "1": -2}}.'
            if "Time" not in name
            else 'It must be JSON as {"orders": {"0": 1700000000000}}, in milliseconds.',
        ) from None
    if any(value < least or partition < 0 for (_, partition), value in found.items()):
        raise BadOption(f"{name} is {text!r}.", hint="-2 is earliest, -1 latest, else from 0 on.")
    return found


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    return value
