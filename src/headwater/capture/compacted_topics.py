"""Topics of which the log keeps the newest record of each key (`cleanup.policy=compact`); called by `writer`.

Such a topic takes no record without a key. A truncate has none, and one that had would leave the rows before
it there for good: compaction forgets a row by its tombstone only. So there a truncate is told by what it
means, a tombstone for every key that has a row. Which keys these are the topic itself says: what readers can
have of the table is what it holds. `docs/decisions/0025-truncates-in-compacted-topics.md` says why.

What must hold:
- The keys that the topic holds are ended before the batch with the truncate, in transactions of their own;
  those that the batch itself wrote before the truncate, in its place there. A writer that is killed between
  the two ends the same keys again: of a key that has no row a tombstone says nothing new.
- A key is ended in the partition that it stands in: a topic may have got more of them since.
- A row without a key becomes a dead letter.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.capture import dead_letters
from headwater.capture.change import EVERY_PARTITION, Position, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted
from headwater.capture.positions import decided, plainly, records_between
from headwater.capture.source import Finding
from headwater.client import settings as log_settings
from headwater.client.bulk_writer import BulkWriter
from headwater.client.librdkafka import AdminClient, KafkaError, KafkaException

KEY_BYTES_AT_ONCE = 8 << 20
"""Of keys that are held; then they are ended, and forgotten here."""
_POLICY = "cleanup.policy"
_LOOK_S = 5.0
_NOT_FOR_US = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


class Keyed(NamedTuple):
    """A batch's records as compacted topics take them."""

    records: list[Record]
    emptied: list[str]
    """Compacted topics whose rows are to be ended before."""
    said: list[str]
    letters: bool
    """Whether some of the records are dead letters now."""


class CompactedTopics:
    """Which topics of one capture are compacted, and what they hold."""

    def __init__(
        self,
        capture: str,
        admin: AdminClient,
        client: Mapping[str, object],
        stopping: threading.Event,
    ) -> None:
        self._capture = capture
        self._admin = admin
        self._client = client
        self._stopping = stopping
        self._others: set[str] = set()

    def is_compacted(self, topic: str) -> bool:
        """That one is not is remembered until `has_changed` looks again."""
        if topic not in self._others and not is_compacted(self._admin, topic):
            self._others.add(topic)
        return topic not in self._others

    def has_changed(self) -> bool:
        """Whether one that was not compacted is now; somebody altered it while it was written."""
        return any(is_compacted(self._admin, topic) for topic in self._others)

    def keyed(self, records: Sequence[Record], position: Position) -> Keyed:
        """For a batch that has records without a key."""
        compacted = {
            topic
            for topic in {record[0] for record in records if record[1] is None}
            if self.is_compacted(topic)
        }
        if not compacted:
            return Keyed(list(records), [], [], False)
        emptied = {
            record[0] for record in records if record[0] in compacted and _is_truncate(record)
        }
        alive: dict[str, dict[bytes, None]] = {topic: {} for topic in emptied}
        kept: list[Record] = []
        keyless: Counter[str] = Counter()
        for record in records:
            topic, key, value = record[:3]
            if topic not in compacted:
                kept.append(record)
            elif key is not None:
                kept.append(record)
                if topic in alive:
                    _note(alive[topic], key, value)
            elif _is_truncate(record):
                kept += [(topic, each, None) for each in alive[topic]]
                alive[topic].clear()
            else:
                kept.append(self._letter(record, position))
                keyless[topic] += 1
        said = [self._sentence(topic, number) for topic, number in keyless.items()]
        return Keyed(kept, sorted(emptied), said, bool(keyless))

    def keys(self, topic: str, partition: int) -> Iterator[list[bytes]]:
        """Those that have a row there now, so many at once as may be held; some of them twice, perhaps."""
        with plainly(f"the keys of {topic}, which a truncate ends, cannot be read"):
            within = decided(self._admin, topic, self._stopping, partition)
        alive: dict[bytes, None] = {}
        size = 0
        for key, value in records_between(self._client, topic, *within, partition):
            if key is None:  # from before it was compacted
                continue
            size += len(key) if key not in alive and value is not None else 0
            _note(alive, key, value)
            if size >= KEY_BYTES_AT_ONCE:
                if self._stopping.is_set():
                    raise Interrupted(f"stopped while the rows of {topic} were ended")
                yield list(alive)
                alive.clear()
                size = 0
        yield list(alive)

    def end_rows(self, bulk: BulkWriter, topics: Iterable[str]) -> None:
        """A tombstone for each key that has a row in one of these."""
        for topic in topics:
            for partition in range(bulk.partition_count(topic)):
                for keys in filter(None, self.keys(topic, partition)):
                    bulk.begin()
                    for key in keys:
                        bulk.put(topic, key, None, None, partition)
                    bulk.commit()

    def _letter(self, record: Record, position: Position) -> Record:
        topic, key, value = record[:3]
        reason = f"a record without a key, and {topic} is compacted"
        return dead_letters.dead(self._capture, (topic, key, value, []), reason, position)

    def _sentence(self, topic: str, number: int) -> str:
        return (
            f"{number:,} records without a key were set aside in {dead_letters.topic_of(self._capture)}: "
            f"{topic} is compacted, and takes none; give the table a primary key, or the topic another "
            "cleanup.policy"
        )


def is_compacted(admin: AdminClient, topic: str) -> bool:
    """No where nobody may ask, or there is no such topic."""
    try:
        entry = log_settings.of_topic(admin, topic).get(_POLICY)
    except KafkaException as error:
        if error.args[0].code() in _NOT_FOR_US:
            return False
        raise
    return entry is not None and says_compact(entry.value)


def will_be_compacted(config: CaptureConfig, topic: str) -> bool:
    """Whether it is, or will be where it is still to be made; by the settings alone if the log is away."""
    wanted = config.topic_config.get(_POLICY)
    admin = AdminClient({"bootstrap.servers": config.bootstrap, "log_level": 0, **config.client})
    try:
        if topic in admin.list_topics(timeout=_LOOK_S).topics:
            return is_compacted(admin, topic)
        if wanted is None:
            wanted = log_settings.of_broker(admin)[f"log.{_POLICY}"].value
    except KafkaException:
        pass
    return says_compact(wanted)


def lost_values(config: CaptureConfig, topic: str, table: str) -> Iterator[Finding]:
    """Of a table with large values whose old rows PostgreSQL does not log whole: where an update leaves such
    a value as it was, its record has a placeholder, and compaction removes the one that had the value."""
    if will_be_compacted(config, topic):
        sentence = (
            f"{table} has large values, which the server's log lacks where an update leaves them as they "
            f"were, and {topic} is compacted: who reads it from the beginning would not find them"
        )
        remedy = f"ALTER TABLE {table} REPLICA IDENTITY FULL;  -- or another cleanup.policy"
        yield Finding(f"large values of {table}", False, sentence, remedy)


def says_compact(policy: str | None) -> bool:
    return "compact" in [each.strip() for each in (policy or "").split(",")]


def _is_truncate(record: Record) -> bool:
    return record[1] is None and len(record) == 5 and record[4] == EVERY_PARTITION


def _note(alive: dict[bytes, None], key: bytes, value: bytes | None) -> None:
    if value is None:
        alive.pop(key, None)
    else:
        alive[key] = None
