"""The driver's questions to the cluster: which partitions, from where to where, and who has them.

`batch` and `stream` call it in Spark's planning processes. What it finds out ends up in `task.Task`s (or
in a stream's position), so that tasks need not ask again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headwater.client import cluster, data_loss
from headwater.client.cluster import EARLIEST, LATEST, Metadata, TopicPartition
from headwater.client.connection import Disconnected
from headwater.client.errors import BadOption, ClientError, UnknownTopic
from headwater.spark.source.options import SourceOptions
from headwater.spark.source.splits import Range
from headwater.spark.source.task import Task
from headwater.spark.source.where import Where

Offsets = dict[TopicPartition, int]


class Planner:
    """One query's view of the cluster."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.cluster = cluster.cluster(options.client)

    def metadata(self) -> Metadata:
        """The chosen topics; those that do not exist are left out."""
        names = self.options.topics()
        found = self.cluster.metadata(names)
        if names is not None:
            return found
        pattern = re.compile(self.options.chosen)
        chosen = {
            name: topic
            for name, topic in found.topics.items()
            if pattern.fullmatch(name) and not topic.is_internal
        }
        return Metadata(found.cluster_id, found.brokers, chosen)

    def partitions(self, metadata: Metadata) -> list[TopicPartition]:
        """The chosen partitions of the topics that are there."""
        assigned = self.options.assigned()
        return sorted(
            (name, partition)
            for name, topic in metadata.topics.items()
            for partition in topic.leaders
            if assigned is None or partition in assigned[name]
        )

    def all_there(self) -> tuple[Metadata, list[TopicPartition]]:
        """Metadata and partitions; UnknownTopic if anything that was named is missing."""
        metadata = self.metadata()
        for name in self.options.topics() or ():
            if name not in metadata.topics:
                raise UnknownTopic(
                    f"There is no topic {name!r} at {self._where}.",
                    hint="Check its name, create it, or read what there is with subscribePattern.",
                )
        partitions = self.partitions(metadata)
        for name, numbers in (self.options.assigned() or {}).items():
            missing = [each for each in numbers if (name, each) not in partitions]
            if missing:
                count = len(metadata.topics[name].leaders)
                raise UnknownTopic(
                    f"Topic {name!r} has no partition {missing[0]}.",
                    hint=f"It has {count}, numbered from 0; correct the option assign.",
                )
        return metadata, partitions

    @property
    def _where(self) -> str:
        return self.options.client["bootstrap.servers"]

    # ---- offsets --------------------------------------------------------------------------------

    def earliest(self, metadata: Metadata, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), metadata=metadata)

    def latest(self, metadata: Metadata, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where readers of this isolation level must stop."""
        wanted = dict.fromkeys(partitions, LATEST)
        return self.cluster.list_offsets(wanted, self.options.isolation, metadata)

    def short(self, metadata: Metadata, known: Offsets, ends: Offsets) -> Offsets:
        """Partitions whose log ends before what is known of it, with that end.

        `ends` is how far readers of this isolation level get, which may rightly be less.
        """
        asked = {place: LATEST for place, offset in known.items() if ends[place] < offset}
        found = self.cluster.list_offsets(asked, metadata=metadata)
        return {place: end for place, end in found.items() if end < known[place]}

    def resolve(
        self, where: Where, metadata: Metadata, partitions: list[TopicPartition], starting: bool
    ) -> Offsets:
        """What an option says, as offsets."""
        wanted = _wanted(where, partitions)
        asked = {place: at for place, at in wanted.items() if where.by_time or at < 0}
        found = {place: at for place, at in wanted.items() if place not in asked}
        found |= self.cluster.list_offsets(asked, self.options.isolation, metadata)
        late = [place for place, offset in found.items() if offset < 0]
        if late and starting and self.options.strategy == "error":
            topic, partition = late[0]
            raise BadOption(
                f"{topic}-{partition} has no record at or after {where.option} {wanted[late[0]]}.",
                hint="Choose an earlier time, or startingOffsetsByTimestampStrategy=latest.",
            )
        return found | (self.latest(metadata, late) if late else {})

    def check_range(
        self, where: Where, offsets: Offsets, metadata: Metadata, partitions: list[TopicPartition]
    ) -> Offsets:
        """Offsets that a user wrote must be in the log: DataLoss, or the nearest that are."""
        if where.each is None or where.by_time:
            return offsets
        first, last = self.earliest(metadata, partitions), self.latest(metadata, partitions)
        for place, offset in offsets.items():
            if first[place] <= offset <= last[place]:
                continue
            loss = data_loss.not_there(where.option, *place, offset, first[place], last[place])
            data_loss.report(
                loss, self.options.fail_on_data_loss, "the nearest offset that is there is taken"
            )
        return {
            place: min(max(offset, first[place]), last[place]) for place, offset in offsets.items()
        }

    # ---- tasks ----------------------------------------------------------------------------------

    def tasks(self, ranges: list[Range], metadata: Metadata, ids: Mapping[str, str]) -> list[Task]:
        """These ranges as tasks, each with the way to its leader and to its files."""
        folders: dict[TopicPartition, str] = {}
        if self.options.files and ranges:
            try:
                folders = self.cluster.log_dirs(metadata, {each[:2] for each in ranges})
            except (ClientError, cluster.TryAgain, Disconnected):
                pass  # a user may lack the right to ask: then over the network
        found = []
        for each in ranges:
            topic = metadata.topics.get(each.topic)
            leader = -1 if topic is None else topic.leaders.get(each.partition, -1)
            found.append(
                Task(
                    each,
                    ids.get(each.topic, ""),
                    leader,
                    metadata.brokers.get(leader),
                    folders.get(each[:2]),
                    metadata.cluster_id,
                )
            )
        return found


def ids_of(metadata: Metadata) -> dict[str, str]:
    """Topic ids as text; none where the broker is too old to have them."""
    return {name: str(topic.id) for name, topic in metadata.topics.items() if topic.id.int}


def _wanted(where: Where, partitions: list[TopicPartition]) -> Offsets:
    if where.all is not None:
        return dict.fromkeys(partitions, where.all)
    assert where.each is not None
    missing = [place for place in partitions if place not in where.each]
    surplus = [place for place in where.each if place not in partitions]
    for wrong, what in ((missing, "does not name"), (surplus, "names, but there is no,")):
        if wrong:
            topic, partition = wrong[0]
            raise BadOption(
                f"{where.option} {what} partition {topic}-{partition}.",
                hint="It must name every partition that is read and no other; "
                "-2 stands for earliest, -1 for latest.",
            )
    return dict(where.each)
