"""From the log back to memory: what the groups and offsets were when the broker stopped.

The coordinator calls `replay` once, before it answers anybody, with all records of
`__consumer_offsets` in log order. The newest record of a key wins; a tombstone removes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from headwater.broker.groups import records
from headwater.broker.groups.classic import ClassicGroup
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.replay import ConsumerReplay
from headwater.broker.groups.core import Core
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.effects import Turn
from headwater.broker.groups.modern.records import Key
from headwater.broker.groups.modern.replay import Replay
from headwater.broker.groups.rebalance import prepare
from headwater.broker.groups.records import GroupKey, OffsetKey
from headwater.broker.groups.snapshot import restored
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.replay import StreamsReplay

log = logging.getLogger(__name__)

Replayed = Iterable[tuple[bytes, bytes | None, int]]
"""Key, value, timestamp in ms."""
ModernReplay = Replay[ConsumerGroup] | Replay[StreamsGroup]
Replays = Sequence[ModernReplay]
"""Of each type of group that has epochs."""


def replay(core: Core, replayed: Replayed) -> None:
    groups: dict[str, records.GroupValue] = {}
    replays = (ConsumerReplay(), StreamsReplay())
    skipped = 0
    for key_bytes, value_bytes, _timestamp in replayed:
        try:
            _apply(core, groups, replays, key_bytes, value_bytes)
        except BadRecord as error:
            skipped += 1
            log.warning("a record of __consumer_offsets cannot be read: %s", error)
    for group_id, value in groups.items():
        core.groups[group_id] = restored(group_id, value, core.now())
    for modern in replays:
        core.groups.update(modern.finished())
    if skipped:
        log.error("%d records of __consumer_offsets were skipped", skipped)


def _apply(
    core: Core,
    groups: dict[str, records.GroupValue],
    replays: Replays,
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
            for modern in replays:  # the group has changed its type: the newest one counts
                modern.drop(key.group_id)
    else:
        for modern in replays:
            found = modern.read_key(key_bytes)
            if found is not None:
                _apply_modern(core, groups, replays, modern, found, value)


def _apply_modern(
    core: Core,
    groups: dict[str, records.GroupValue],
    replays: Replays,
    modern: ModernReplay,
    key: Key,
    value: bytes | None,
) -> None:
    modern.apply(key, value)
    if key.kind != modern.kinds.group:
        return
    if value is None:
        _drop_if_nothing_is_left(core, key.group_id)
    else:
        groups.pop(key.group_id, None)
        for other in replays:
            if other is not modern:
                other.drop(key.group_id)


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
