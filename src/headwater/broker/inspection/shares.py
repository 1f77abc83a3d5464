"""Share groups: what `__share_group_state` says, against the partitions that it speaks of.

`check` shows it every batch of the topic and asks it once all partitions are through.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.transactions import StateView, bad_records
from headwater.broker.internal_topics import SHARE_GROUP_STATE as NAME
from headwater.broker.shares import records
from headwater.broker.shares.records import SNAPSHOT, Key
from headwater.broker.shares.state_topic import coordinator_key
from headwater.log.checkpoints import TopicPartition
from headwater.record.records import Record


@dataclass(slots=True)
class SharesView(StateView):
    """Where every share-partition begins."""

    starts: dict[Key, int] = field(default_factory=dict)

    def _apply(self, record: Record) -> str | None:
        kind, key = records.read_key(record.key or b"")
        if record.value is not None:
            value = records.read_value(kind, record.value)
            if value.start >= 0:
                self.starts[key] = value.start
        elif kind == SNAPSHOT:
            self.starts.pop(key, None)
        return coordinator_key(key)


def inspect(
    view: SharesView, facts: Mapping[TopicPartition, Facts], names: Mapping[uuid.UUID, str]
) -> Iterator[Finding]:
    """`names`: of the topics that there are, by id."""
    yield from bad_records(
        NAME, view.bad, "the broker leaves it out; records may be delivered again"
    )
    for key, start in view.starts.items():
        topic = names.get(key.topic_id)
        if topic is None:
            yield Finding(
                "share-without-topic",
                Severity.NOTE,
                NAME,
                f"share group {key.group_id} has a state for topic {key.topic_id}, which is not there",
                "nobody notices: a topic of the same name has another id",
            )
            continue
        there = facts.get((topic, key.partition))
        if there is not None and there.was_read and start > there.end_offset:
            yield Finding(
                "share-beyond-end",
                Severity.NUISANCE,
                NAME,
                f"share group {key.group_id} begins at offset {start} of {topic}-{key.partition}, which "
                f"ends at {there.end_offset}",
                "the partition has lost its end; the next start lets the group go on there, so that it "
                "gets what is written then",
                topic,
                key.partition,
                there.end_offset,
                start,
            )
