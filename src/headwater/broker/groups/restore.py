"""From the log back to memory: what the groups and offsets were when the broker stopped.

The coordinator calls `replay` once, before it answers anybody, with all records of
`__consumer_offsets` in log order. The newest record of a key wins; a tombstone removes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headwater.broker.groups import records
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer import record_reader
from headwater.broker.groups.consumer import records as consumer_records
from headwater.broker.groups.consumer.replay import Replay
from headwater.broker.groups.core import Core
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import Turn
from headwater.broker.groups.rebalance import prepare
from headwater.broker.groups.records import GroupKey, OffsetKey
from headwater.broker.groups.snapshot import restored
from headwater.broker.groups.streams import record_reader as streams_reader
from headwater.broker.groups.streams import records as streams_records
from headwater.broker.groups.streams.replay import Replay as StreamsReplay

log = logging.getLogger(__name__)

Replayed = Iterable[tuple[bytes, bytes | None, int]]
"""Key, value, timestamp in ms."""


def replay(core: Core, replayed: Replayed) -> None:
    groups: dict[str, records.GroupValue] = {}
    consumers, streams = Replay(), StreamsReplay()
    skipped = 0
    for key_bytes, value_bytes, _timestamp in replayed:
        try:
            _apply(core, groups, consumers, streams, key_bytes, value_bytes)
        except BadRecord as error:
            skipped += 1
            log.warning("a record of __consumer_offsets cannot be read: %s", error)
    for group_id, value in groups.items():
        core.groups[group_id] = restored(group_id, value, core.now())
    core.groups.update(consumers.finished())
    core.groups.update(streams.finished())
    if skipped:
        log.error("%d records of __consumer_offsets were skipped", skipped)


def _apply(
    core: Core,
    groups: dict[str, records.GroupValue],
    consumers: Replay,
    streams: StreamsReplay,
    key_bytes: bytes,
    value: bytes | None,
) -> None:
    key = records.read_key(key_bytes)
    if isinstance(key, OffsetKey):
        _apply_offset(core, key, value)
    elif isinstance(key, GroupKey):
        if value is None:
            groups.pop(key.group_id, None)
            _drop_if_nothing_is_left(core, key.group_id)
        else:
            groups[key.group_id] = records.read_group_value(value)
            consumers.drop(key.group_id)  # the group has changed its type: the newest one counts
            streams.drop(key.group_id)
    elif (consumer_key := record_reader.read_key(key_bytes)) is not None:
        consumers.apply(consumer_key, value)
        if consumer_key.kind == consumer_records.GROUP and value is None:
            _drop_if_nothing_is_left(core, consumer_key.group_id)
        elif consumer_key.kind == consumer_records.GROUP:
            groups.pop(consumer_key.group_id, None)
            streams.drop(consumer_key.group_id)
    elif (streams_key := streams_reader.read_key(key_bytes)) is not None:
        streams.apply(streams_key, value)
        if streams_key.kind == streams_records.GROUP and value is None:
            _drop_if_nothing_is_left(core, streams_key.group_id)
        elif streams_key.kind == streams_records.GROUP:
            groups.pop(streams_key.group_id, None)
            consumers.drop(streams_key.group_id)


def _apply_offset(core: Core, key: OffsetKey, value: bytes | None) -> None:
    offset = None if value is None else records.read_offset_value(value)
    core.stale_offsets.discard(key)
    if offset is not None and not core.is_current(key.topic, offset):
        core.stale_offsets.add(key)
        offset = None
    core.offsets.open(key.group_id).count((key.topic, key.partition), offset)
    core.offsets.close(key.group_id)
    if offset is not None and key.group_id not in core.groups:
        core.create_classic(key.group_id)


def _drop_if_nothing_is_left(core: Core, group_id: str) -> None:
    """Its offsets alone may have called the group into being."""
    if not core.offsets.of(group_id):
        core.groups.pop(group_id, None)


def shed_excess(group: ClassicGroup, turn: Turn) -> None:
    """A group above a limit that was lowered meanwhile must rebalance, so that some are refused."""
    if len(group.members) > turn.limits.group_max_size:
        prepare(group, turn, "it has more members than group.max.size")
