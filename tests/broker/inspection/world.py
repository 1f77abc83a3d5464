"""A data folder with something of everything, made by a real broker and real clients; and reading it back.

orders   two partitions, small segments, every codec, producers with and without ids
keyed    compacted, with compaction having run
paid     committed and aborted transactions
excised  records taken out by excision
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.broker.inspection.check import Report, inspect
from headwater.broker.inspection.repair import Outcome, repair
from headwater.record import batch as batches
from headwater.record.batch import BatchHeader
from tests import fork_server
from tests.broker.serving import Serving, serving
from tests.compat.waiting import until

Row = tuple[bytes | None, bytes | None]
Rows = dict[tuple[str, int, int], Row]
"""(topic, partition, offset) → key and value."""

TOPICS = {"orders": 2, "keyed": 1, "paid": 1, "excised": 1}
SETTINGS = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
CODECS = ("none", "gzip", "lz4", "zstd", "snappy")
_SMALL = {"internal.segment.bytes": "6000"}


class World(NamedTuple):
    """A folder, and what readers saw when it was whole."""

    data: Path
    uncommitted: Rows
    committed: Rows

    def copy(self, to: Path) -> World:
        shutil.copytree(self.data, to)
        return self._replace(data=to)

    def folder(self, topic: str, partition: int = 0) -> Path:
        return self.data / f"{topic}-{partition}"

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        return sorted(self.folder(topic, partition).glob("*.log"))


def make(data: Path) -> World:
    """Stopped in order."""
    with serving(data, SETTINGS) as broker:
        _create(broker.bootstrap)
        _write_orders(broker.bootstrap)
        _write_keyed(broker)
        _write_paid(broker.bootstrap)
        _excise(broker)
        _commit(broker.bootstrap)
        return World(data, read(broker.bootstrap), read(broker.bootstrap, committed=True))


def _create(bootstrap: str) -> None:
    eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **_SMALL}
    client = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(name, count, 1, config=eager if name == "keyed" else _SMALL)
        for name, count in TOPICS.items()
    ]
    for future in client.create_topics(topics).values():
        future.result()


def _flushed(producer: Producer) -> None:
    assert producer.flush(60) == 0


def _write_orders(bootstrap: str) -> None:
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
            }
        )
        for batch in range(12):
            for record in range(4):
                value = b"%s %d %d " % (codec.encode(), batch, record) + b"." * 120
                producer.produce("orders", value, b"order-%d" % record, partition=batch % 2)
            _flushed(producer)


def _write_keyed(broker: Serving) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(300):
        producer.produce("keyed", b"%d " % number + b"." * 60, b"key-%d" % (number % 13))
        if number % 3 == 2:
            _flushed(producer)
    log = broker.log("keyed")
    until(lambda: broker.call(lambda: log.cleaned_offset) >= 100, "compaction")


def _write_paid(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till"})
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        for record in range(4):
            producer.produce("paid", b"%d %d " % (number, record) + b"." * 200, b"paid")
        _flushed(producer)
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def _excise(broker: Serving) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(60):
        producer.produce("excised", b"." * 200, b"person-%d" % (number % 5))
        if number % 5 == 4:
            _flushed(producer)
    words = ["excise", "excised", "--offsets", "0:10-24", "--yes", "--bootstrap", broker.bootstrap]
    ran = fork_server.headwater(*words)
    assert ran.returncode == 0, ran.stderr


def _commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    for topic, partitions in TOPICS.items():
        for number in range(partitions):
            consumer.commit(offsets=[TopicPartition(topic, number, 10)], asynchronous=False)
    consumer.close()


def read(bootstrap: str, *, committed: bool = False, topics: Mapping[str, int] = TOPICS) -> Rows:
    """Everything, by a real client."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex[:6]}",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    places = [(topic, n) for topic, count in topics.items() for n in range(count)]
    consumer.assign([TopicPartition(topic, n, 0) for topic, n in places])
    found: Rows = {}
    ended: set[tuple[str, int]] = set()
    while len(ended) < len(places):
        message = consumer.poll(60)
        assert message is not None, f"nothing for a minute; ended: {sorted(ended)}"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended.add((message.topic(), message.partition()))
        else:
            at = (message.topic(), message.partition(), message.offset())
            found[at] = (message.key(), message.value())
    consumer.close()
    return found


def read_folder(data: Path, *, committed: bool = False) -> Rows:
    """What a broker that is started on this folder serves."""
    with serving(data) as broker:
        return read(broker.bootstrap, committed=committed)


def checked(data: Path) -> Report:
    """An inspection that must not change a byte, nor a name."""
    before = _contents(data)
    report = inspect(data)
    assert _contents(data) == before
    return report


def _contents(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def mended(data: Path) -> Outcome:
    """A repair after which nothing is wrong."""
    outcome = repair(data)
    assert not outcome.after.wrong, [each.what for each in outcome.after.wrong]
    assert not outcome.failed
    return outcome


def batches_of(path: Path) -> list[tuple[int, BatchHeader]]:
    """File position and header of each batch."""
    return list(batches.scan(path.read_bytes()))


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def spoil(path: Path, position: int) -> None:
    """More than one wrong bit, which a repair would set right."""
    flip(path, position)
    flip(path, position + 2)


def patch(path: Path, position: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)
