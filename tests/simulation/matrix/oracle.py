"""Knows what was acknowledged, and says whether what the broker serves can be.

Called by `run` after every fault and every restart. Whatever is not allowed raises a Violation whose
sentence says what and where.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from headwater.broker.shares.records import Key
from headwater.record.records import Record

from .client import Client
from .model import Fate, Model, Sent, Topic, Transaction
from .reader import Found, read
from .world import AUDIT, ROOT, Violation, World

READS_MAX = 20
OUR_MISTAKES = (
    "KeyError",
    "TypeError",
    "AttributeError",
    "IndexError",
    "ValueError",
    "AssertionError",
)


def require(condition: object, sentence: str) -> None:
    if not condition:
        raise Violation(sentence)


@dataclass
class Damage:
    """What somebody has done to files; what lay in them may be missing, if the broker says so."""

    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Partition's folder → ranges of offsets that lay in the damaged files."""
    state: set[str] = field(default_factory=set)
    """Internal topics, and files of all partitions, that are not what they were."""

    def excuses(self, topic: str, partition: int, offset: int) -> bool:
        ranges = self.lost.get(f"{topic}-{partition}", ())
        return any(first <= offset < end for first, end in ranges)

    def touches(self, *names: str) -> bool:
        return any(name in self.state for name in names)


class Oracle:
    def __init__(self, world: World, model: Model) -> None:
        self.world = world
        self.model = model
        self.client = Client(world, model)
        self.damage = Damage()

    async def check(self, *, restarted: bool) -> None:
        """Everything that can be read now. `restarted`: what is doubtful is settled by what is found."""
        self._topics(restarted)
        visible: dict[int, bool] = {}
        for topic in self.model.topics:
            if self._is_there(topic):
                for partition in range(topic.partitions):
                    await self._partition(topic, partition, visible, restarted)
        self._transactions(visible, restarted)
        await self._commits(restarted)
        self._shares()

    # ---- topics ------------------------------------------------------------------------------------

    def _is_there(self, topic: Topic) -> bool:
        found = self.world.now.catalogue.topics.get(topic.name)
        return found is not None and found.id == topic.id

    def _topics(self, restarted: bool) -> None:
        catalogue = self.world.now.catalogue.topics
        for number, topic in enumerate(self.model.topics):
            newer = [each for each in self.model.topics[number + 1 :] if each.name == topic.name]
            found = catalogue.get(topic.name)
            if found and restarted and topic.id is None and not newer:
                topic.id, topic.made = found.id, Fate.ACKNOWLEDGED
                found = catalogue[topic.name]
            there = self._is_there(topic)
            if topic.deleted is Fate.ACKNOWLEDGED:
                require(not there, f"topic {topic.name} was deleted, and is back")
            elif topic.made is Fate.ACKNOWLEDGED and topic.deleted is None and not there:
                self._set_aside(topic)
            if there and found is not None:
                allowed = [topic.configs, *topic.other_configs]
                require(
                    dict(found.configs) in allowed,
                    f"configs of {topic.name} are {dict(found.configs)}, none of {allowed}",
                )
                for partition in range(topic.partitions):
                    known = self.world.now.partition(topic.name, partition)
                    require(known is not None, f"{topic.name}-{partition} is not there")
            elif topic.deleted is Fate.DOUBTFUL:
                topic.deleted = Fate.ACKNOWLEDGED

    def _set_aside(self, topic: Topic) -> None:
        """Only a catalogue that was damaged may forget a topic, and then its folders are still there."""
        sentence = f"topic {topic.name} was created, and is not there"
        require(self.damage.touches("__headwater_catalogue"), sentence)
        for partition in range(topic.partitions):
            require(self._has_stray(topic.name, partition), sentence)
        topic.deleted = Fate.ACKNOWLEDGED

    def _has_stray(self, topic: str, partition: int) -> bool:
        folder = f"{topic}-{partition}"
        names = self.world.disk.list(ROOT)
        aside = any(name.startswith(f"{folder}.") and name.endswith("-stray") for name in names)
        return aside and self.world.has_told(folder)

    # ---- records -----------------------------------------------------------------------------------

    async def _partition(
        self, topic: Topic, partition: int, visible: dict[int, bool], restarted: bool
    ) -> None:
        where = f"{topic.name}-{partition}"
        found, committed = await self._read(topic.name, partition)
        self._end(topic, partition, found)
        self._same_records(topic, partition, found)
        if restarted:
            _settle(topic, partition, found)
        start = topic.start.get(partition, 0)
        if not self.damage.touches("log-start-offset-checkpoint"):
            require(
                found.start >= start, f"{where} starts at {found.start}, {start} was acknowledged"
            )
        excused = self._missing(topic, partition, found)
        excused |= self._unreadable(topic, partition, found)
        if excused:
            require(self.world.has_told(where), f"{where} has lost records, and nobody was told")
        self._committed(topic, partition, found, committed, visible)
        if topic.may_compact():
            self._newest(topic, partition, committed)

    async def _read(self, topic: str, partition: int) -> tuple[Found, Found]:
        """All of it, and what is committed: of the same segments, so that the two can be compared."""
        for _ in range(READS_MAX):
            segments = self._segments(topic, partition)
            found = await read(self.world, topic, partition, committed=False)
            committed = await read(self.world, topic, partition, committed=True)
            if self._segments(topic, partition) is segments:
                return found, committed
        raise Violation(f"{topic}-{partition}: its segments change for ever")

    def _segments(self, topic: str, partition: int) -> object:
        known = self.world.now.partition(topic, partition)
        assert known is not None
        return known.log.segments

    def _end(self, topic: Topic, partition: int, found: Found) -> None:
        """The log never ends before what readers have seen, and no offset is given twice."""
        where = f"{topic.name}-{partition}"
        end = topic.end_seen.get(partition, 0)
        require(found.end >= end, f"{where} ends at {found.end}, readers have seen {end}")
        topic.end_seen[partition] = found.end

    def _same_records(self, topic: Topic, partition: int, found: Found) -> None:
        """Each record is one that was sent here, once, with these bytes, at this offset for ever."""
        where, last, times = f"{topic.name}-{partition}", -1, set[int]()
        for record in found.records:
            sent = topic.sent.get(record.timestamp)
            require(sent, f"{where} has a record at {record.offset} that nobody sent: {record}")
            assert sent is not None
            require(
                (sent.key, sent.value, sent.partition) == (record.key, record.value, partition),
                f"{where} has other bytes at {record.offset} than were sent: {record}, sent {sent}",
            )
            require(record.offset > last, f"{where}: offsets go back at {record.offset}")
            require(record.timestamp not in times, f"twice there: {sent}")
            before = topic.seen.setdefault((partition, record.offset), record.timestamp)
            require(
                before == record.timestamp,
                f"offset {record.offset} of {where} was {topic.sent.get(before)}, now it is {sent}",
            )
            if sent.fate is Fate.ACKNOWLEDGED:
                require(sent.offset == record.offset, f"{sent} is at {record.offset} now")
            # A batch whose partition could not be added to its transaction may be there: nobody commits it.
            is_void = sent.transaction is not None and (
                sent.transaction.is_forgotten or not sent.transaction.may_be_committed
            )
            require(sent.fate is not Fate.REFUSED or is_void, f"refused, and there: {sent}")
            require(
                topic.excised.get(sent.key or b"") is not Fate.ACKNOWLEDGED,
                f"excised, and there: {sent}",
            )
            last = record.offset
            times.add(record.timestamp)

    def _missing(self, topic: Topic, partition: int, found: Found) -> bool:
        """Whether something is missing for which there is an excuse."""
        there = {record.timestamp for record in found.records}
        unreadable = set(found.unreadable)
        excused = False
        for sent in topic.sent.values():
            if sent.fate is not Fate.ACKNOWLEDGED or sent.partition != partition:
                continue
            if sent.timestamp in there or sent.offset in unreadable or self._may_go(sent, found):
                continue
            if self.damage.excuses(topic.name, partition, sent.offset):
                excused = True
                continue
            raise Violation(f"lost: {sent}; the log goes from {found.start} to {found.end}")
        return excused

    def _may_go(self, sent: Sent, found: Found) -> bool:
        topic = sent.topic
        if sent.offset < topic.start_asked.get(sent.partition, 0) and sent.offset < found.start:
            return True
        if (sent.key or b"") in topic.excised:
            return True
        if topic.may_compact(sent.timestamp) and self._may_be_compacted(sent):
            return True
        return self._is_expired(sent, found)

    def _is_expired(self, sent: Sent, found: Found) -> bool:
        age = max(self.world.clock.now_ms(), self.world.latest_ms) - sent.timestamp
        return 0 <= sent.topic.retention_ms(sent.timestamp) < age and sent.offset < found.start

    def _may_be_compacted(self, sent: Sent) -> bool:
        if sent.transaction and not self._is_known_to_commit(sent.transaction, sent):
            return True
        if sent.key is None or sent.value is None:
            return True
        return any(
            self._replaces(each, sent)
            for each in sent.topic.sent.values()
            if each.key == sent.key and sent.topic.may_compact(each.timestamp)
        )

    def _is_known_to_commit(self, transaction: Transaction, sent: Sent) -> bool:
        """Of a lost marker the coordinator knows the end, if that was its producer's last."""
        later = self.model.transactions[transaction.number + 1 :]
        is_last = all(each.name != transaction.name for each in later)
        is_damaged = f"{sent.topic.name}-{sent.partition}" in self.damage.lost
        return transaction.is_committed and (is_last or not is_damaged)

    def _replaces(self, each: Sent, sent: Sent) -> bool:
        later = each.offset > sent.offset if each.offset >= 0 else each.timestamp > sent.timestamp
        after = later and each.partition == sent.partition
        stored = each.fate is not Fate.REFUSED
        counts = each.transaction is None or each.transaction.may_be_committed
        return after and stored and counts

    def _unreadable(self, topic: Topic, partition: int, found: Found) -> bool:
        for offset in found.unreadable:
            require(
                self.damage.excuses(topic.name, partition, offset),
                f"{topic.name}-{partition} cannot be read at offset {offset}",
            )
        return bool(found.unreadable)

    def _newest(self, topic: Topic, partition: int, committed: Found) -> None:
        """Of each key the newest committed value is the one that readers end up with."""
        if self.damage.lost.get(f"{topic.name}-{partition}"):
            return
        served: dict[bytes, Record] = {}
        for record in committed.records:
            served[record.key or b""] = record
        newest: dict[bytes, Sent] = {}
        for sent in sorted(topic.sent.values(), key=lambda sent: sent.offset):
            counts = sent.transaction is None or sent.transaction.is_committed
            stable = sent.offset < committed.stable
            if sent.partition == partition and sent.fate is Fate.ACKNOWLEDGED and counts and stable:
                newest[sent.key or b""] = sent
        for key, sent in newest.items():
            record = served.get(key)
            if key in topic.excised or (record is not None and record.offset >= sent.offset):
                continue
            is_deleted = sent.offset < min(committed.start, topic.start_asked.get(partition, 0))
            if sent.key is None or is_deleted or self._is_expired(sent, committed):
                continue
            if record is None and (sent.value is None or self._is_doubtful(sent, committed)):
                continue
            raise Violation(f"readers do not end up with {sent}, but with {record}")

    def _is_doubtful(self, sent: Sent, committed: Found) -> bool:
        """A later tombstone that may have been stored may also have been compacted away."""
        return any(
            each.key == sent.key and each.value is None and self._replaces(each, sent)
            for each in sent.topic.sent.values()
        )

    # ---- transactions ------------------------------------------------------------------------------

    def _committed(
        self,
        topic: Topic,
        partition: int,
        found: Found,
        committed: Found,
        visible: dict[int, bool],
    ) -> None:
        """What `read_committed` must and must not see."""
        there = {r.timestamp for r in found.records if r.offset < found.stable}
        seen = {record.timestamp for record in committed.records}
        for sent in topic.sent.values():
            if sent.partition != partition or sent.timestamp not in there:
                continue
            transaction, shown = sent.transaction, sent.timestamp in seen
            if transaction is not None and transaction.is_forgotten:
                continue
            if transaction is None:
                require(shown, f"not in a transaction, and not visible: {sent}")
            elif transaction.is_committed:
                if self.damage.touches("__transaction_state", topic.name):
                    continue
                require(shown, f"committed, and not visible: {sent}")
            elif not transaction.may_be_committed:
                if self.damage.touches(topic.name):
                    continue
                require(not shown, f"not committed, and visible: {sent}")
            elif sent.fate is Fate.ACKNOWLEDGED:
                before = visible.setdefault(transaction.number, shown)
                if not self.damage.touches("__transaction_state", topic.name):
                    require(before == shown, f"torn: {sent} is {'' if shown else 'in'}visible")

    def _transactions(self, visible: dict[int, bool], restarted: bool) -> None:
        """What could be seen of a doubtful transaction says how it ended."""
        for transaction in self.model.transactions:
            is_doubtful = transaction.may_be_committed and not transaction.is_committed
            if is_doubtful and not transaction.is_forgotten and restarted:
                shown = visible.get(transaction.number)
                if shown:
                    transaction.fate = Fate.ACKNOWLEDGED

    async def ended(self) -> None:
        """After every time-out: no transaction holds anybody back."""
        for (name, number), partition in self.world.now.topics.partitions.items():
            log = partition.log
            require(
                log.last_stable_offset() == log.durable_offset,
                f"{name}-{number}: readers stand at {log.last_stable_offset()} of {log.durable_offset}",
            )

    # ---- groups ------------------------------------------------------------------------------------

    async def _commits(self, restarted: bool) -> None:
        for (group, topic, partition), commits in self.model.commits.items():
            if not self.model.has(topic):
                continue
            found = await self.client.committed(group, topic, partition)
            allowed = {commits.sure, *commits.doubtful}
            for transaction in self.model.transactions:
                if transaction.offset is not None and transaction.is_committed:
                    if group == f"readers-of-{transaction.name}":
                        allowed = {each for each in allowed if each >= transaction.offset}
            if self.damage.touches("__consumer_offsets", "__transaction_state"):
                if found not in allowed:
                    told = map(self.world.has_told, ("__consumer_offsets", "__transaction_state"))
                    require(any(told), f"offsets of {group} are lost, and nobody was told")
                continue
            require(
                found in allowed, f"{group} has committed {sorted(allowed)} of {topic}, not {found}"
            )
            if restarted and not self._open_offsets(group):
                commits.sure, commits.doubtful = found, []

    def _open_offsets(self, group: str) -> bool:
        return any(
            each.name == group.removeprefix("readers-of-") and each.fate is Fate.DOUBTFUL
            for each in self.model.transactions
        )

    def _shares(self) -> None:
        if self.damage.touches("__share_group_state"):
            return
        for (group, name, partition), settled in self.model.settled.items():
            topic = self.model.topic(name)
            if topic.id is None or not self._is_there(topic):
                continue
            owner = self.world.now.shares.owner(Key(group, topic.id, partition), name)
            state = owner.state
            if state is None:
                require(not settled.sure, f"share group {group} has forgotten everything")
                continue
            sent = [s.offset for s in topic.sent.values() if s.fate is Fate.ACKNOWLEDGED]
            ended = {offset for offset in sent if offset >= 0 and state.is_settled(offset)}
            lost = {offset for offset in settled.sure if not state.is_settled(offset)}
            require(not lost, f"share group {group} had accepted {sorted(lost)} of {name}")
            foreign = ended - settled.sure - settled.doubtful
            if self.damage.touches(name):  # a group goes on where the log begins now
                start = owner.source.log.start_offset if owner.source else 0
                foreign = {offset for offset in foreign if offset >= start}
            require(not foreign, f"{sorted(foreign)} of {name} are settled, and nobody did")

    # ---- duties ------------------------------------------------------------------------------------

    async def excisions_done(self) -> None:
        """Every acknowledged request has its line in the audit."""
        wanted = self.model.excisions.keys()
        if not wanted or self.damage.touches("__headwater_excisions", AUDIT):
            return
        partition = self.world.now.partition(AUDIT, 0)
        done: set[str] = set()
        if partition is not None:
            found = await read(self.world, AUDIT, 0, committed=False)
            done = {str(json.loads(r.value or b"{}").get("id")) for r in found.records}
        require(wanted <= done, f"excisions that were never carried out: {sorted(wanted - done)}")
        for topic, key in self.model.excisions.values():
            topic.excised[key] = Fate.ACKNOWLEDGED

    def nobody_died(self) -> None:
        """Every task goes on, and none has failed for another reason than the disk."""
        loop = self.world.loop
        assert loop is not None
        for context in loop.failures:
            raise Violation(f"{context.get('message')}: {context.get('exception')!r}")
        for name, task in self.world.now.health.tasks.items():
            told = task.last_failure or ""
            require(task.doing != "ended", f"{name} has ended: {told}")
            ours = any(kind in told for kind in OUR_MISTAKES)
            require(not ours, f"{name} failed by a mistake of ours: {told}")


def _settle(topic: Topic, partition: int, found: Found) -> None:
    """What was doubtful and is there stays; what is not there does not come back."""
    there = {record.timestamp: record.offset for record in found.records}
    for sent in topic.sent.values():
        if sent.partition == partition and sent.fate is Fate.DOUBTFUL and not found.unreadable:
            sent.fate = Fate.ACKNOWLEDGED if sent.timestamp in there else Fate.REFUSED
            sent.offset = there.get(sent.timestamp, -1)
