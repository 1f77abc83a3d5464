"""The catalogue's log at start: that it is as it was, and what its records say.

`Broker` opens it, `Catalogue` reads it. Without it nobody knows whose the partitions' folders are. So one
that is missing, damaged or shorter than it was must stop the start, before anything is opened or tidied up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headwater.broker import internal_topics
from headwater.errors import HeadwaterError
from headwater.log import integrity
from headwater.log import replay as replay_log
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.replay import Damage
from headwater.log.store import LogStore

LOG_NAME = internal_topics.CATALOGUE
MADE = "headwater.catalogue"
"""In meta.properties: there is a catalogue, so that its absence is a loss and not a beginning."""


def open_log(store: LogStore) -> PartitionLog:
    """The catalogue's log, made if the folder is new. Raises HeadwaterError if it is not as it was."""
    directory = store.directory(LOG_NAME, 0)
    if not any(name.endswith(".log") for name in store.files.list(directory)):
        if store.meta.is_noted(MADE) or store.was_used:
            raise unusable(directory, "missing, though this folder has been used")
    elif problem := integrity.problem(store.files, directory, store.recovery_point(LOG_NAME, 0)):
        raise unusable(directory, problem)
    config = LogConfig(compact=True, delete=False, is_never_cut=True, syncs_durable_offset=True)
    log = store.open_log(LOG_NAME, 0, config)
    # A folder without records may have been made for the first topic, whose record never came.
    if not log.next_offset and any(store.has_records(*each) for each in store.partitions()):
        log.abandon()
        raise unusable(directory, "empty, though there are partitions with records")
    store.meta.note(MADE)
    return log


def unusable(directory: Path, problem: str) -> HeadwaterError:
    root = directory.parent
    return HeadwaterError(
        f"The catalogue of topics, {directory}, is {problem}.",
        hint=f"Restore that folder from a copy; or see with `headwater check {root}` what is there, and "
        f"let `headwater repair {root} --yes` recreate it from the partitions' folders.",
    )


def replay(log: PartitionLog, apply: Callable[[str, Mapping[str, Any] | None], None]) -> None:
    """Hand over every record of the catalogue's log, in order. Raises HeadwaterError."""

    def stop(found: Damage) -> None:
        raise unusable(log.directory, f"damaged: {found}")

    for batch in replay_log.read(log, 0, stop):
        for record in batch.records:
            try:
                value = None if record.value is None else json.loads(record.value)
                apply((record.key or b"").decode(), value)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problem = f"damaged: its record {record.offset} cannot be read ({error!r})"
                raise unusable(log.directory, problem) from error
