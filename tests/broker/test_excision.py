"""True deletion through a running broker: asked for on the command line, searched for in the files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.project.broker_process import BrokerProcess
from tests import fork_server

SECRET = b"the-secret-of-seventeen"


@contextmanager
def broker_on(data: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data) as broker:
        broker.start()
        yield broker


def excise(bootstrap: str, *words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.headwater("excise", *words, "--bootstrap", bootstrap)


def make_topic(bootstrap: str, name: str) -> None:
    config = {"internal.segment.bytes": "20000"}
    topic = NewTopic(name, num_partitions=2, replication_factor=1, config=config)
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics([topic]).values():
        future.result()


def write(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    for number in range(2000):
        key = b"customer-%d" % (number % 40)
        value = SECRET if number % 40 == 17 else b"value %d" % number
        producer.produce(topic, key=key, value=value, on_delivery=_must_succeed)
        if number % 200 == 199:
            assert producer.flush(60) == 0


def _must_succeed(error: object, _: object) -> None:
    assert error is None, error


def read(
    bootstrap: str, topic: str, options: Mapping[str, int] | None = None
) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            **(options or {}),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    found, ended = {}, set()
    while len(ended) < 2:
        message = consumer.poll(60)
        assert message is not None, "nothing for a minute"
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition(), message.offset()] = (message.key(), message.value())
    consumer.close()
    return found


def bytes_of(data: Path, topic: str) -> bytes:
    return b"".join(
        path.read_bytes()
        for number in range(2)
        for path in sorted((data / f"{topic}-{number}").iterdir())
    )


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_byte_of_an_excised_key_is_left_and_all_else_stays(tmp_path: Path, codec: str) -> None:
    with broker_on(tmp_path / "log") as broker:
        make_topic(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", codec)
        before = read(broker.bootstrap, "orders")
        assert codec != "none" or SECRET in bytes_of(tmp_path / "log", "orders")

        counted = excise(broker.bootstrap, "orders", "--key", "customer-17", "--dry-run", "--json")
        assert counted.returncode == 0, counted.stderr
        assert json.loads(counted.stdout)["removed"] == 50
        assert read(broker.bootstrap, "orders") == before

        done = excise(
            broker.bootstrap, "orders", "--key", "customer-17", "--yes", "--why", "asked", "--json"
        )
        assert done.returncode == 0, done.stderr
        entry = json.loads(done.stdout)
        assert (entry["removed"], entry["why"], entry["status"]) == (50, "asked", "done")
        after = read(broker.bootstrap, "orders")
        assert after == {at: row for at, row in before.items() if row[0] != b"customer-17"}
        assert SECRET not in bytes_of(tmp_path / "log", "orders")
        for path in (tmp_path / "log").glob("__headwater_*/*.log"):
            assert b"customer-17" not in path.read_bytes()

        again = excise(broker.bootstrap, "orders", "--key", "customer-17", "--yes", "--json")
        assert json.loads(again.stdout)["removed"] == 0


def test_copies_beside_the_log_that_may_hold_the_records_are_named(tmp_path: Path) -> None:
    data = tmp_path / "log"
    with broker_on(data) as broker:
        make_topic(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", "none")
        (segment, *_) = sorted((data / "orders-1").glob("*.log"))
        stray, aside = f"orders-1.{'a' * 32}-stray", "set-aside/20260131-120000/orders-1"
        for name in (stray, aside, "set-aside/20260131-120000/orders-10"):
            (data / name).mkdir(parents=True)
        copies = [
            f"orders-1/{segment.stem}.damaged",
            f"{stray}/{segment.name}",
            f"{aside}/{segment.name}",
            f"{aside}/{segment.name}.from-byte-5",
        ]
        others = [f"{aside}/{segment.stem}.index", f"{Path(aside).parent}/orders-10/{segment.name}"]
        for name in copies + others:
            shutil.copy(segment, data / name)
        asked = ("orders", "--key", "customer-17", "--yes")
        done = excise(broker.bootstrap, *asked)
        assert done.returncode == 0, done.stderr
        assert "are gone." in done.stdout
        assert {line.strip() for line in done.stdout.splitlines()} & {*copies, *others} == {*copies}
        for name in copies:
            (data / name).unlink()
        entry = json.loads(excise(broker.bootstrap, *asked, "--json").stdout)
        assert "copies" not in entry


def test_a_range_of_offsets_goes(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        make_topic(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", "lz4")
        before = read(broker.bootstrap, "orders")
        done = excise(broker.bootstrap, "orders", "--offsets", "1:5-700", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert read(broker.bootstrap, "orders") == {
            at: row for at, row in before.items() if not (at[0] == 1 and 5 <= at[1] <= 700)
        }


def test_a_consumer_with_little_room_gets_past_what_was_excised(tmp_path: Path) -> None:
    little = {"fetch.max.bytes": 1000, "message.max.bytes": 1000, "max.partition.fetch.bytes": 100}
    with broker_on(tmp_path / "log") as broker:
        make_topic(broker.bootstrap, "orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        for number in range(300):  # each a batch of its own, several segments
            producer.produce("orders", b"%0500d" % number, partition=0, on_delivery=_must_succeed)
            assert producer.flush(60) == 0
        done = excise(broker.bootstrap, "orders", "--offsets", "0:0-249", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert sorted(at for _, at in read(broker.bootstrap, "orders", little)) == [
            *range(250, 300)
        ]
        broker.kill()  # before a checkpoint says that anything was changed
    with broker_on(tmp_path / "log") as broker:
        assert sorted(at for _, at in read(broker.bootstrap, "orders", little)) == [
            *range(250, 300)
        ]


def test_a_request_that_was_interrupted_is_carried_out_after_the_restart(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        make_topic(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", "none")
        before = read(broker.bootstrap, "orders")
        asking = subprocess.Popen(
            [
                *(sys.executable, "-m", "headwater", "excise", "orders", "--key", "customer-17"),
                *("--yes", "--seconds", "1", "--bootstrap", broker.bootstrap),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        requests = tmp_path / "log" / "__headwater_excisions-0" / f"{0:020d}.log"
        while not (requests.exists() and requests.stat().st_size):
            assert asking.poll() is None, "the command ended without a request"
        broker.kill()
        asking.kill()
        asking.wait()
    with broker_on(tmp_path / "log") as broker:
        audit = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "a"})
        audit.assign([TopicPartition("__headwater_audit", 0, 0)])
        message = audit.poll(30)
        assert message is not None
        assert json.loads(message.value())["status"] == "done"
        audit.close()
        assert SECRET not in bytes_of(tmp_path / "log", "orders")
        after = read(broker.bootstrap, "orders")
        assert after == {at: row for at, row in before.items() if row[0] != b"customer-17"}


def test_what_cannot_be_excised_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with broker_on(tmp_path / "log") as broker:
        make_topic(broker.bootstrap, "orders")
        for words, says in [
            (("nothing", "--key", "k", "--yes"), "there is no topic 'nothing'"),
            (("orders", "--offsets", "7:1-2", "--yes"), "there is no partition orders-7"),
            (("orders", "--offsets", "1-2", "--yes"), "is not PARTITION:FIRST-LAST"),
            (("orders", "--yes"), "give one of --key, --key-hex and --offsets"),
            (("orders", "--key", "k"), "would be deleted permanently"),
        ]:
            refused = excise(broker.bootstrap, *words)
            assert refused.returncode in (1, 2)
            assert says in refused.stderr
            assert "Traceback" not in refused.stderr
