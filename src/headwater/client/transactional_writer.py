"""Small transactions with little delay: all records in one Produce, then EndTxn, and nothing else.

Called by capture for what a database commits a few rows at a time. A confluent-kafka producer needs a round
trip more (AddPartitionsToTxn) and hands each step from thread to thread; here the caller's thread does all of
it. With transactions of version 2 (KIP-890) a Produce adds its partitions by itself, and each transaction has
an epoch of its own, so that sequences begin at 0 and what comes late is refused.

What must hold:
- EndTxn is sent when every partition has acknowledged, and not before: it would commit what there is.
- `write` is False only where an abort was confirmed: nothing of it will ever be seen, and whoever calls may
  write it in another way. Where the outcome is not known it raises, and the log has to be asked.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import Cluster, Metadata, TopicPartition, TryAgain
from headwater.client.connection import Disconnected
from headwater.client.errors import ClientError, RequestRefused
from headwater.client.librdkafka import FENCED, KafkaError, KafkaException
from headwater.client.partitioner import by_murmur2
from headwater.client.transaction import TRANSACTION, Identity
from headwater.client.transaction_batches import BY_KEY, Outgoing, built, gathered

RECORDS_MAX, BYTES_MAX = 100, 64 << 10
"""What is small: from about here on librdkafka's threads and compiled code make up for its delay."""
_PRODUCE, _END = 12, 5
_FEATURE, _VERSION = "transaction.version", 2
_METADATA_S = 300.0
"""Topics may get more partitions; librdkafka looks as often."""
_BUSY_S, _PAUSE_S = 2.0, 0.001
_REQUEST_TIMEOUT_MS = 30_000
_SEEK_S = 5.0
"""So long a coordinator is looked for: then whoever calls had better begin anew, with a writer that waits."""


class TransactionalWriter:
    """One transactional id, for one thread. After any error that it raises it must be opened again."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int,
        partition_count: Callable[[str], int] | None = None,
    ) -> None:
        """`partition_count`: of a topic, from whoever else places the same keys; None: as asked here."""
        self._cluster = cluster
        self._partition_count = partition_count or (lambda topic: len(self._known(topic)))
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._who = Identity(transactional_id, -1, -1)
        self._leaders: Metadata | None = None
        self._asked = 0.0
        self.usable = False
        """Whether the brokers have transactions of version 2, and let this id write."""

    def open(self) -> None:
        """Fence whoever had the id, and abort what it left. Raises ClientError."""
        try:
            self._who = transaction.begin(self._cluster, self._id, self._timeout_ms)
            self.usable = transaction.asking(self._cluster, self._has_version_2)
        except RequestRefused as error:
            if error.code != ErrorCode.transactional_id_authorization_failed:
                raise
            self.usable = False

    def close(self) -> None:
        self._cluster.close()

    def takes(self, outgoing: Sequence[Outgoing]) -> bool:
        """Whether it is for here: small, and placed by its keys."""
        if not self.usable or len(outgoing) > RECORDS_MAX:
            return False
        size = 0
        for record in outgoing:
            size += len(record[1] or b"") + len(record[2] or b"")
            if size > BYTES_MAX or (len(record) == 5 and record[4] != BY_KEY):
                return False
        return True

    def write(self, outgoing: Iterable[Outgoing]) -> bool:
        """One transaction. False: it was aborted, and none of it is there. Raises KafkaException."""
        assert self.usable, "open() comes first"
        try:
            stored = self._produce(self._batches(outgoing))
        except (ClientError, Disconnected, TryAgain):
            stored = False
            self._leaders = None
            self._cluster.forget()
        if not stored:
            self._ask_to_end(commit=False)
            return False
        self._ask_to_end(commit=True)
        return True

    # ---- records ---------------------------------------------------------------------------------

    def _batches(self, outgoing: Iterable[Outgoing]) -> dict[TopicPartition, bytes]:
        batches = gathered(outgoing, self._partition, int(time.time() * 1000))
        return {place: built(batch, self._who) for place, batch in batches.items()}

    def _partition(self, topic: str, key: bytes | None) -> int:
        count = self._partition_count(topic)
        return random.randrange(count) if key is None else by_murmur2(key, count)

    def _known(self, topic: str) -> Mapping[int, int]:
        """Its partitions and their leaders."""
        old = self._leaders is None or time.monotonic() - self._asked > _METADATA_S
        if old or self._leaders is None or topic not in self._leaders.topics:
            wanted = {topic} | (set(self._leaders.topics) if self._leaders is not None else set())
            self._leaders = self._cluster.metadata(wanted)
            self._asked = time.monotonic()
        if topic not in self._leaders.topics:
            raise TryAgain(f"nobody knows topic {topic}")
        return self._leaders.topics[topic].leaders

    def _leader(self, topic: str, partition: int) -> int:
        if partition not in self._known(topic):  # it has got more
            self._leaders = None
        leader = self._known(topic).get(partition, -1)
        if leader < 0:
            raise TryAgain(f"{topic}-{partition} has no leader")
        return leader

    # ---- requests --------------------------------------------------------------------------------

    def _produce(self, batches: Mapping[TopicPartition, bytes]) -> bool:
        """Until all are stored; False where one is refused."""
        deadline = time.monotonic() + _BUSY_S
        left = dict(batches)
        while left:
            told = self._sent(left)
            codes = {place: told.get(place, ErrorCode.unknown_server_error) for place in left}
            left = {place: data for place, data in left.items() if codes[place] not in _STORED}
            found = {codes[place] for place in left}
            if found & _FENCED:
                raise KafkaException(KafkaError(int(min(found & _FENCED))))
            if found - _AGAIN or (left and time.monotonic() > deadline):
                return False
            if left:
                time.sleep(_PAUSE_S)
            if found - {ErrorCode.concurrent_transactions}:
                self._leaders = None
        return True

    def _sent(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, ErrorCode]:
        by_leader: dict[int, dict[str, list[dict[str, object]]]] = {}
        for (topic, partition), data in batches.items():
            leader = self._leader(topic, partition)
            parts = by_leader.setdefault(leader, {}).setdefault(topic, [])
            parts.append({"index": partition, "records": data})
        asked = [self._cluster.node(leader) for leader in by_leader]
        for connection, topics in zip(asked, by_leader.values(), strict=True):
            body = {
                "transactional_id": self._id,
                "acks": -1,
                "timeout": _REQUEST_TIMEOUT_MS,
                "topic_data": [{"name": n, "partition_data": each} for n, each in topics.items()],
            }
            connection.send(api.PRODUCE, body, _PRODUCE)
        return {
            (topic.name, each.index): each.error_code
            for connection in asked
            for topic in connection.receive().responses
            for each in topic.partition_responses
        }

    def _ask_to_end(self, *, commit: bool) -> None:
        """Until there is a coordinator that does it; of a commit without an answer nobody may ask again."""

        def attempt() -> None:
            connection = self._coordinator()
            try:
                self._end(connection, commit=commit)
            except Disconnected as error:
                if commit:
                    raise _lost(error) from error
                raise

        try:
            transaction.asking(self._cluster, attempt, _SEEK_S)
        except ClientError as error:
            raise _lost(error) from error

    def _end(self, connection: api.Connection, *, commit: bool) -> None:
        body = {
            "transactional_id": self._id,
            "producer_id": self._who.producer_id,
            "producer_epoch": self._who.epoch,
            "committed": commit,
        }
        answer = transaction.patiently(connection, api.END_TXN, body, _END)
        if answer.error_code in _ELSEWHERE:
            raise TryAgain(f"the transaction {self._id} has another coordinator now")
        if answer.error_code is not ErrorCode.none:
            raise KafkaException(KafkaError(int(answer.error_code)))
        self._who = Identity(self._id, answer.producer_id, answer.producer_epoch)

    def _coordinator(self) -> api.Connection:
        return transaction.coordinator(self._cluster, self._id, TRANSACTION)

    def _has_version_2(self) -> bool:
        connection = self._coordinator()
        if connection.version(api.PRODUCE, _PRODUCE) < _PRODUCE:
            return False
        body = {"client_software_name": "headwater", "client_software_version": "1"}
        answer = connection.ask(api.API_VERSIONS, body)
        features = {each.name: each.max_version_level for each in answer.finalized_features}
        return features.get(_FEATURE, 0) >= _VERSION


def _lost(error: Exception) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TRANSPORT, str(error)))


_ELSEWHERE = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""What a broker says that has done nothing."""
_AGAIN = frozenset(
    {
        # The markers of the transaction before are on their way: Kafka answers before.
        ErrorCode.concurrent_transactions,
        # Of a topic that was just made, or of one whose leader has changed.
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
    }
)
_STORED = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})
_FENCED = frozenset(ErrorCode(code) for code in FENCED if code > 0)
