"""MirrorMaker 2: a topic and a group's position arrive in another cluster, from either server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat import cluster as servers
from tests.compat.cluster import Cluster
from tests.compat.confluent import consumer, producer, send
from tests.ecosystem.programs import java, of_page, running, written

pytestmark = pytest.mark.timeout(900)
MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"
N = 500
VALUES = [f"v{n}" for n in range(N)]


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with servers.running("headwater") as found:
        yield found


def settings(path: Path, source: Cluster, target: Cluster, topic: str, group: str) -> str:
    named = {
        "127.0.0.1:9092": source.bootstrap,
        "127.0.0.1:9093": target.bootstrap,
        "topics=orders": f"topics={topic}",
        "groups=billing": f"groups={group}",
    }
    often = {
        "here->there.sync.group.offsets.interval.seconds": 1,
        "here->there.emit.checkpoints.interval.seconds": 1,
    }
    return written(path, of_page("MirrorMaker 2", named), **often)


def position(reader: Consumer, topic: str) -> int:
    (found,) = reader.committed([TopicPartition(topic, 0)], 60)
    return int(found.offset)


@pytest.mark.soak  # its clients are those of test_connect, and groups move in project/test_promote
def test_records_and_positions_of_groups_arrive(
    cluster: Cluster, target: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, group = cluster.create_topic(new_name()), new_name()
    sender = producer(cluster)
    send(sender, topic, VALUES, key="k")
    with consumer(cluster, group) as reader:
        reader.commit(offsets=[TopicPartition(topic, 0, N - 100)], asynchronous=False)
    mirrored = f"here.{topic}"
    words = settings(tmp_path / "mirror.properties", cluster, target, topic, group)
    with (
        running(java(MIRROR, words), tmp_path / "log") as program,
        consumer(target, group) as there,
    ):
        found: list[tuple[str, str]] = []
        there.assign([TopicPartition(mirrored, 0, 0)])

        def has_come(n: int) -> bool:
            for each in there.consume(1000, 0.5):
                if not each.error():
                    found.append((each.key().decode(), each.value().decode()))
            return len(found) >= n

        program.until(lambda: has_come(N), "the records")
        send(sender, topic, ["later"], key="k")
        program.until(lambda: has_come(N + 1), "a later record")
        # Its positions are those of the syncs that it keeps: never beyond, and some way behind.
        program.until(lambda: 0 <= position(there, mirrored) <= N - 100, "the group's position")
    assert found == [("k", value) for value in (*VALUES, "later")]
