"""A move that was killed, and goes on after the project has changed: nothing stays behind unnamed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions

import headwater.testing as headwater_testing
from headwater.client.cluster import Cluster
from tests.project import moving
from tests.project.test_promote import headwater, project

KILLED = """
import os, sys
from headwater.cli.app import run
from headwater.project.promote import job
setattr(job, sys.argv[1], lambda *words: os._exit(9))
run(sys.argv[2:])
"""


def killed(folder: Path, *words: str, at: str = "rename_topics") -> None:
    """All but the last step: as if it was killed there."""
    command = [sys.executable, "-c", KILLED, at, *words]
    ran = subprocess.run(command, cwd=folder, check=False, timeout=60)
    assert ran.returncode == 9


def test_a_topic_that_was_deleted_meanwhile_does_not_stay_in_kafka_unnamed(tmp_path: Path):
    folder = project(tmp_path / "shop")
    with headwater_testing.broker() as kafka:
        with moving.log(folder) as broker:
            for name in ("gone", "plain"):
                moving.create(broker.bootstrap, name)
                moving.produce(broker.bootstrap, name, range(20))
        killed(folder, "promote", "--kafka", kafka.bootstrap)
        with moving.log(folder) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            admin.delete_topics(["gone"])["gone"].result(30)
        ran = headwater(folder, "promote", "--kafka", kafka.bootstrap)
        assert ran.returncode == 0, ran.stderr
        there = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        assert "gone" not in there.list_topics(timeout=60).topics or "gone" in ran.stdout


def test_a_group_that_let_a_topic_go_meanwhile_is_moved(tmp_path: Path):
    folder = project(tmp_path / "shop")
    with headwater_testing.broker() as kafka:
        with moving.log(folder) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            for name in ("gone", "plain"):
                moving.create(broker.bootstrap, name)
                moving.produce(broker.bootstrap, name, range(20))
            places = [TopicPartition(name, 0, 5) for name in ("gone", "plain")]
            asked = [ConsumerGroupTopicPartitions("readers", places)]
            for future in admin.alter_consumer_group_offsets(asked).values():
                future.result(30)
        killed(folder, "promote", "--kafka", kafka.bootstrap)
        with moving.log(folder) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            admin.delete_topics(["gone"])["gone"].result(30)
        ran = headwater(folder, "promote", "--kafka", kafka.bootstrap)
        assert ran.returncode == 0, ran.stderr


def test_a_topic_that_grew_meanwhile_is_moved(tmp_path: Path):
    folder = project(tmp_path / "shop")
    with headwater_testing.broker() as kafka:
        with moving.log(folder) as broker:
            moving.create(broker.bootstrap, "grown")
            moving.produce(broker.bootstrap, "grown", range(20))
        killed(folder, "promote", "--kafka", kafka.bootstrap)
        with moving.log(folder) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            admin.create_partitions([NewPartitions("grown", 3)])["grown"].result(30)
        ran = headwater(folder, "promote", "--kafka", kafka.bootstrap)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("at", ["rename_topics", "_rewrite"])
def test_records_that_kafka_has_let_go_meanwhile_are_moved_again(tmp_path: Path, at: str):
    folder = project(tmp_path / "shop")
    offsets = folder / "data" / "checkpoints" / "a-query" / "offsets"
    offsets.mkdir(parents=True)
    (offsets.parent / "headwater.json").write_text("{}")
    with headwater_testing.broker() as kafka:
        with moving.log(folder) as broker:
            moving.create(broker.bootstrap, "plain")
            moving.produce(broker.bootstrap, "plain", range(20))
            before = moving.seen(broker.bootstrap, ["plain"])
            (offsets / "0").write_text(topic_id(broker.bootstrap))
        killed(folder, "promote", "--kafka", kafka.bootstrap, at=at)
        # As its retention does, which it has as soon as it is filled.
        there = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for future in there.delete_records([TopicPartition("plain", 0, 10)]).values():
            future.result(30)
        ran = headwater(folder, "promote", "--kafka", kafka.bootstrap)
        assert ran.returncode == 0, ran.stderr
        assert "Begun afresh, as an earlier run broke off: plain." in ran.stdout
        assert moving.seen(kafka.bootstrap, ["plain"]) == before
        assert (offsets / "0").read_text() == topic_id(kafka.bootstrap)


def topic_id(bootstrap: str) -> str:
    cluster = Cluster({"bootstrap.servers": bootstrap})
    try:
        return str(cluster.metadata(["plain"]).topics["plain"].id)
    finally:
        cluster.close()


def test_times_that_the_broker_gave_are_kept_and_named_as_no_longer_the_brokers(tmp_path: Path):
    folder = project(tmp_path / "shop")
    with headwater_testing.broker() as kafka:
        with moving.log(folder) as broker:
            moving.create(broker.bootstrap, "stamped", message_timestamp_type="LogAppendTime")
            moving.create(broker.bootstrap, "plain")
            for name in ("stamped", "plain"):
                moving.produce(broker.bootstrap, name, range(20))
            before = moving.seen(broker.bootstrap, ["stamped"])
        for words in (["--dry-run"], []):
            ran = headwater(folder, "promote", "--kafka", kafka.bootstrap, *words)
            assert ran.returncode == 0, ran.stderr
            assert (
                "stays what it was, but reads as its producer's (CreateTime): stamped."
                in ran.stdout
            )
        after = moving.seen(kafka.bootstrap, ["stamped"])
        assert [each.timestamp[1] for each in after] == [each.timestamp[1] for each in before]
        assert {each.timestamp[0] for each in before} == {TIMESTAMP_LOG_APPEND_TIME}
        moving.produce(kafka.bootstrap, "stamped", range(1))
        assert (
            moving.seen(kafka.bootstrap, ["stamped"])[-1].timestamp[0] == TIMESTAMP_LOG_APPEND_TIME
        )
