"""Consumer groups: what `__consumer_offsets` says, against the partitions that it speaks of.

`check` shows it every batch of the topic. As in the broker, the newest commit of a key counts, and commits
of a transaction count once its marker does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.broker.groups import records
from headwater.broker.groups.consumer import reading
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.records import GroupKey, OffsetKey
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.finding import Finding, Severity
from headwater.broker.inspection.segments import Visitor
from headwater.broker.inspection.transactions import bad_records
from headwater.broker.offsets_topic import NAME
from headwater.log.checkpoints import TopicPartition
from headwater.record import control
from headwater.record.batch import BatchHeader
from headwater.record.errors import RecordError
from headwater.record.records import Record

SHOWN = 20


@dataclass(slots=True)
class GroupsView:
    """The offsets that the groups have committed."""

    committed: dict[OffsetKey, int] = field(default_factory=dict)
    bad: list[tuple[int, int, str]] = field(default_factory=list)

    def visitor(self, number: int) -> Visitor:
        waiting: dict[int, dict[OffsetKey, int | None]] = {}

        def visit(header: BatchHeader, found: list[Record], data: memoryview) -> None:
            if header.is_control:
                ended = waiting.pop(header.producer_id, {})
                if _commits(data):
                    for key, offset in ended.items():
                        self._set(key, offset)
                return
            mine = waiting.setdefault(header.producer_id, {}) if header.is_transactional else None
            for record in found:
                try:
                    read = _read(record)
                except (BadRecord, ValueError, IndexError) as error:
                    self.bad.append((number, record.offset, str(error)))
                    continue
                if read is None:
                    continue
                if mine is not None:
                    mine[read[0]] = read[1]
                else:
                    self._set(*read)

        return visit

    def _set(self, key: OffsetKey, offset: int | None) -> None:
        if offset is None:
            self.committed.pop(key, None)
        else:
            self.committed[key] = offset


def _commits(data: memoryview) -> bool:
    try:
        return control.read_marker(data).kind == control.COMMIT
    except RecordError:
        return False


def _read(record: Record) -> tuple[OffsetKey, int | None] | None:
    """A commit; None for what is about members. Raises BadRecord."""
    if record.key is None:
        return None
    key = records.read_key(record.key)
    if isinstance(key, OffsetKey):
        value = None if record.value is None else records.read_offset_value(record.value).offset
        return key, value
    if isinstance(key, GroupKey):
        if record.value is not None:
            records.read_group_value(record.value)
    elif (consumer := reading.read_key(record.key)) is not None and record.value is not None:
        reader = reading.READERS.get(consumer.kind)
        if reader is not None:
            reader(record.value)
    return None


def inspect(
    view: GroupsView, facts: Mapping[TopicPartition, Facts], topics: set[str]
) -> Iterator[Finding]:
    """`topics`: those that there are."""
    yield from bad_records(
        NAME, view.bad, "the broker leaves it out; a group may have lost a commit"
    )
    gone: dict[str, set[str]] = {}
    for key, offset in sorted(view.committed.items(), key=lambda each: repr(each[0])):
        if key.topic not in topics:
            gone.setdefault(key.topic, set()).add(key.group_id)
            continue
        there = facts.get((key.topic, key.partition))
        if there is not None and there.was_read:
            yield from _commit(key, offset, there)
    for topic, groups in sorted(gone.items()):
        names = ", ".join(sorted(groups)[:SHOWN])
        yield Finding(
            "commit-without-topic",
            Severity.NUISANCE,
            NAME,
            f"groups have commits for topic {topic}, which is not there: {names}",
            "if a topic of that name is made again, they begin in the middle of it, or are refused",
            topic,
        )


def _commit(key: OffsetKey, offset: int, facts: Facts) -> Iterator[Finding]:
    if offset > facts.end_offset:
        yield Finding(
            "commit-beyond-end",
            Severity.DAMAGE,
            NAME,
            f"group {key.group_id} has committed offset {offset} of {key.topic}-{key.partition}, which "
            f"ends at {facts.end_offset}",
            "the group is told OFFSET_OUT_OF_RANGE and begins where auto.offset.reset says; once the "
            "partition is longer than that, it skips what was written below. Set its offset with "
            "`headwater groups reset`",
            key.topic,
            key.partition,
            facts.end_offset,
            offset,
        )
    elif offset < facts.start:
        yield Finding(
            "commit-before-start",
            Severity.NOTE,
            NAME,
            f"group {key.group_id} has committed offset {offset} of {key.topic}-{key.partition}, which "
            f"begins at {facts.start} now",
            "retention was quicker than the group: it begins where auto.offset.reset says",
            key.topic,
            key.partition,
            offset,
            facts.start - 1,
        )
