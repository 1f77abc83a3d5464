"""Consumer groups: what `__consumer_offsets` says, against the partitions that it speaks of.

`check` shows it every batch of the topic, and what counts of it is found as by the broker (`Settling`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headwater.broker.groups import records
from headwater.broker.groups.consumer.records import KINDS
from headwater.broker.groups.consumer.replay import READERS
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.groups.records import GroupKey, OffsetKey, OffsetValue
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.segments import Visitor
from headwater.broker.inspection.testimony import HashedKeys
from headwater.broker.inspection.transactions import bad_records
from headwater.broker.offsets_topic import NAME, Settling
from headwater.log.checkpoints import TopicPartition
from headwater.log.replay import Batch
from headwater.record.batch import BatchHeader
from headwater.record.records import Record

SHOWN = 20


@dataclass(slots=True)
class GroupsView:
    """The offsets that the groups have committed."""

    committed: dict[OffsetKey, OffsetValue] = field(default_factory=dict)
    bad: list[tuple[int, int, str]] = field(default_factory=list)
    keys: HashedKeys = field(default_factory=HashedKeys)

    def topic_ids(self) -> dict[str, UUID]:
        """Topic → the id that most commits name for it; of two as many, the one of the later commit."""
        votes: dict[str, Counter[UUID]] = {}
        for key, value in reversed(self.committed.items()):
            if value.topic_id:
                votes.setdefault(key.topic, Counter())[value.topic_id] += 1
        return {topic: found.most_common(1)[0][0] for topic, found in votes.items()}

    def visitor(self, number: int) -> Visitor:
        settling = Settling(number)

        def visit(header: BatchHeader, found: list[Record], data: memoryview) -> None:
            mine = () if header.is_control else found  # a marker's key is none of the coordinator's
            good = [record for record in mine if self._is_good(number, record)]
            for key, value, _ in settling.settled(Batch(header, bytes(data), good)):
                read = _read(key, value)
                if read is not None:
                    self.keys.seen(number, read[0].group_id)
                    self._set(*read)

        return visit

    def _is_good(self, number: int, record: Record) -> bool:
        try:
            if record.key is not None:
                _read(record.key, record.value)
            return True
        except (BadRecord, ValueError, IndexError) as error:
            self.bad.append((number, record.offset, str(error)))
            return False

    def _set(self, key: OffsetKey, value: OffsetValue | None) -> None:
        if value is None:
            self.committed.pop(key, None)
        else:
            self.committed[key] = value


def _read(key_bytes: bytes, value: bytes | None) -> tuple[OffsetKey, OffsetValue | None] | None:
    """A commit; None for what is about members. Raises BadRecord."""
    key = records.read_key(key_bytes)
    if isinstance(key, OffsetKey):
        return key, None if value is None else records.read_offset_value(value)
    if isinstance(key, GroupKey):
        if value is not None:
            records.read_group_value(value)
    elif (consumer := KINDS.read_key(key_bytes)) is not None and value is not None:
        reader = READERS.get(consumer.kind)
        if reader is not None:
            reader(value)
    return None


def inspect(
    view: GroupsView, facts: Mapping[TopicPartition, Facts], topics: Mapping[str, UUID | None]
) -> Iterator[Finding]:
    """`topics`: those that there are, with their ids as far as they are known."""
    yield from bad_records(
        NAME, view.bad, "the broker leaves it out; a group may have lost a commit"
    )
    gone: dict[str, set[str]] = {}
    for key, value in sorted(view.committed.items(), key=lambda each: repr(each[0])):
        topic_id = topics.get(key.topic)
        if key.topic not in topics or (value.topic_id and topic_id not in (None, value.topic_id)):
            gone.setdefault(key.topic, set()).add(key.group_id)
            continue
        there = facts.get((key.topic, key.partition))
        if there is not None and there.was_read:
            yield from _commit(key, value.offset, there)
    for topic, groups in sorted(gone.items()):
        names = ", ".join(sorted(groups)[:SHOWN])
        yield Finding(
            "commit-without-topic",
            Severity.NUISANCE,
            NAME,
            f"groups have commits for topic {topic} as it was before it was deleted: {names}",
            "nothing: the broker drops them at its next start",
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
