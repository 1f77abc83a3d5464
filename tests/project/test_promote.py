"""A project moves to Apache Kafka: the same records at the same offsets, or nothing is changed."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

import headwater.testing as headwater_testing
from headwater.client.cluster import Cluster
from headwater.project.file import load
from headwater.project.ports import free_port
from headwater.project.promote.left_behind import left_behind
from headwater.project.promote.steps import Abort, Data, Gap
from headwater.project.promote.writer import PartitionWriter
from headwater.record import records
from headwater.schemas.client import RegistryClient
from headwater.schemas.model import Schema
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests import fork_server
from tests.compat.missing import skip_or_fail
from tests.compat.waiting import until
from tests.project import moving
from tests.schemas.conftest import serving

TOPICS = ["early", "kept", "mixed", "plain", "wide"]
QUICK_TO_FORGET = {
    "num.partitions": "1",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}
FILE = """\
# A project, with words of its own.

[log]
data = "data/log"     # here
listen = "{listen}"
settings = {{ "num.partitions" = 1 }}

[spark]
master = "local[2]"   # this machine
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    try:
        with apache_kafka(QUICK_TO_FORGET, jvm=QUICK_JVM) as server:
            yield server.bootstrap
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "headwater.toml").write_text(FILE.format(listen=f"127.0.0.1:{free_port()}"))
    return folder


def headwater(folder: Path, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return fork_server.headwater(*words, cwd=folder, said=said)


def a_hard_log(bootstrap: str) -> None:
    """Plain records, a log that begins late, transactions of all kinds, holes, many partitions."""
    for name in ("plain", "early", "mixed"):
        moving.create(bootstrap, name)
    moving.produce(bootstrap, "plain", range(50))
    moving.produce(bootstrap, "early", range(80))
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition("early", 0, 33)]).values():
        future.result(30)
    moving.transact(bootstrap, "mixed")
    moving.create(bootstrap, "wide", 4, retention_ms="987654321")
    moving.produce(bootstrap, "wide", range(500))
    moving.compacted(bootstrap, "kept")
    for group, offset in (("readers", 7), ("others", 0)):
        place = TopicPartition("plain", 0, offset, f"note of {group}")
        asked = [ConsumerGroupTopicPartitions(group, [place])]
        for future in admin.alter_consumer_group_offsets(asked).values():
            future.result(30)


def test_every_reader_finds_the_same_at_the_same_offsets(tmp_path: Path, kafka: str):
    folder = project(tmp_path / "shop")
    with moving.log(folder) as broker:
        a_hard_log(broker.bootstrap)
        busy = headwater(folder, "promote", "--kafka", kafka)  # another port: its folder tells
        before = {
            level: moving.seen(broker.bootstrap, TOPICS, level)
            for level in ("read_uncommitted", "read_committed")
        }
        ends = moving.ends(broker.bootstrap, TOPICS)
    assert busy.returncode == 1
    assert len(before["read_uncommitted"]) > len(before["read_committed"]) > 600
    assert ends["early", 0] == (33, 80)

    tried = headwater(folder, "promote", "--kafka", kafka, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "Nothing has been changed." in tried.stdout
    assert "33 before the logs' starts" in tried.stdout
    assert load(folder / "headwater.toml").bootstrap is None

    ran = headwater(folder, "promote", "--kafka", kafka, "--spark", "local[1]")
    assert ran.returncode == 0, ran.stdout + ran.stderr

    assert moving.ends(kafka, TOPICS) == ends
    for level, found in before.items():
        assert moving.seen(kafka, TOPICS, level) == found, level
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions("readers")]
    (group,) = [f.result(30) for f in admin.list_consumer_group_offsets(asked).values()]
    (place,) = group.topic_partitions
    assert (place.topic, place.offset, place.metadata) == ("plain", 7, "note of readers")
    resource = ConfigResource(ResourceType.TOPIC, "wide")
    (future,) = admin.describe_configs([resource]).values()
    assert future.result(30)["retention.ms"].value == "987654321"
    assert future.result(30)["max.message.bytes"].is_default

    moved, text = load(folder / "headwater.toml"), (folder / "headwater.toml").read_text()
    assert (moved.bootstrap, moved.master) == (kafka, "local[1]")
    assert text.startswith("# A project, with words of its own.")
    assert '# data = "data/log"     # here' in text
    old = (folder / "headwater.toml.before-kafka").read_text()
    assert load(folder / "headwater.toml") and 'data = "data/log"' in old
    again = headwater(folder, "promote", "--kafka", kafka)
    assert again.returncode == 1 and "already" in again.stderr


def test_what_the_log_keeps_for_ever_the_new_one_keeps_too(tmp_path: Path, kafka: str):
    """Retention that was set for the whole broker; Kafka's own default is seven days."""
    folder = project(tmp_path / "shop")
    text = (folder / "headwater.toml").read_text()
    more = '"num.partitions" = 1, "log.retention.ms" = -1, "log.cleanup.policy" = "delete"'
    (folder / "headwater.toml").write_text(text.replace('"num.partitions" = 1', more))
    old_ms = int(time.time() * 1000) - 30 * 24 * 3_600_000
    with headwater_testing.broker(folder / "data" / "log", {"log.retention.ms": -1}) as broker:
        moving.create(broker.bootstrap, "history")
        moving.produce(broker.bootstrap, "history", range(50), begin_ms=old_ms)
        before = moving.seen(broker.bootstrap, ["history"])
    assert len(before) == 50

    ran = headwater(folder, "promote", "--kafka", kafka)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "settings of the broker: num.partitions" in ran.stdout
    moving.create(kafka, "canary")
    moving.produce(kafka, "canary", range(50), begin_ms=old_ms)
    until(lambda: moving.ends(kafka, ["canary"])["canary", 0] == (50, 50), "Kafka to forget")
    assert moving.seen(kafka, ["history"]) == before
    assert _setting(kafka, "history", "retention.ms") == "-1"


def _setting(bootstrap: str, topic: str, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return future.result(30)[name].value


def test_users_rights_and_limits_are_named_as_left_behind(tmp_path: Path):
    data = tmp_path / "log"
    settings = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
    with headwater_testing.broker(data, settings) as broker:
        for words in (
            ("acls", "allow", "User:ann", "read", "topic:orders", "--bootstrap", broker.bootstrap),
            ("users", "add", "ann", "--bootstrap", broker.bootstrap),
        ):
            ran = headwater(tmp_path, *words, said="a long password\n")
            assert ran.returncode == 0, ran.stdout + ran.stderr
        cluster = Cluster({"bootstrap.servers": broker.bootstrap})
        try:
            quota = {
                "entity": [{"entity_type": "user", "entity_name": "ann"}],
                "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
            }
            cluster.anyone().ask(49, {"entries": [quota], "validate_only": False})
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            found = left_behind(cluster, admin, {"num.partitions": "4", "log.retention.ms": "-1"})
        finally:
            cluster.close()
    assert {kind.split(" (")[0]: names for kind, names in found.items()} == {
        "users": ["ann"],
        "ACLs": ["User:ann allow read topic:orders"],
        "quotas": ["user ann"],
        "settings of the broker": ["num.partitions"],
    }


def test_a_move_that_was_killed_goes_on_with_the_next(tmp_path: Path, kafka: str):
    folder = project(tmp_path / "shop")
    names = ["big", "small"]
    with moving.log(folder) as broker:
        for name in names:
            moving.create(broker.bootstrap, name, 2)
        moving.produce(broker.bootstrap, "big", range(30_000))
        moving.produce(broker.bootstrap, "small", range(10))
        before = moving.seen(broker.bootstrap, names)
        ends = moving.ends(broker.bootstrap, names)

    words = [sys.executable, "-m", "headwater", "promote", "--kafka", kafka]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE) as run:
        journal = folder / "data" / "promote.json"
        until(lambda: run.poll() is not None or journal.exists(), "the first topic")
        until(lambda: run.poll() is not None or _begun(kafka), "the first records")
        run.kill()  # it alone: its broker must not stay behind
    if load(folder / "headwater.toml").bootstrap is not None:
        skip_or_fail("a kill cannot run here in time: the move was over before it, try again")

    ran = headwater(folder, "promote", "--kafka", kafka)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Went on with" in ran.stdout or "Begun afresh" in ran.stdout
    assert moving.ends(kafka, names) == ends
    assert moving.seen(kafka, names) == before
    assert not journal.exists()


def _begun(kafka: str) -> bool:
    try:
        return any(end for _, end in moving.ends(kafka, ["big"]).values())
    except KeyError:
        return False


def test_topics_of_somebody_else_are_left_alone(tmp_path: Path, kafka: str):
    folder = project(tmp_path / "shop")
    with moving.log(folder) as broker:
        moving.create(broker.bootstrap, "taken")
        moving.produce(broker.bootstrap, "taken", range(3))
    moving.create(kafka, "taken")
    refused = headwater(folder, "promote", "--kafka", kafka)
    assert refused.returncode == 1
    assert "Kafka has topics of these names already: taken" in refused.stderr
    assert load(folder / "headwater.toml").bootstrap is None


def test_offsets_without_records_are_kept_also_without_the_right_to_write_markers(kafka: str):
    moving.create(kafka, "unprivileged", retention_ms="-1")  # its times are of 1970
    place = ("unprivileged", 0)
    cluster = Cluster({"bootstrap.servers": kafka})
    try:
        writer = PartitionWriter(cluster, place, may_mark=False)
        batch = records.build([records.Record(0, 5, b"k", b"v")])
        aborted = records.build([records.Record(0, 6, b"k", b"taken back")])
        for step in (
            Data(0, 1, batch),
            Gap(1, 2),
            Data(3, 1, aborted, producer=7),
            Data(4, 1, batch),
            Abort(5, 7),
            Gap(6, 1),
            Data(7, 1, batch),
        ):
            writer.write(step)
        writer.flush()
    finally:
        cluster.close()
    assert moving.ends(kafka, ["unprivileged"]) == {place: (0, 8)}
    seen = {
        level: [record.place[2] for record in moving.seen(kafka, ["unprivileged"], level)]
        for level in ("read_uncommitted", "read_committed")
    }
    assert seen == {"read_uncommitted": [0, 3, 4, 7], "read_committed": [0, 4, 7]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kafka", "127.0.0.1:1"), "no broker answers at 127.0.0.1:1"),
        (("--kafka", "127.0.0.1:1", "--spark", "nowhere"), "'nowhere' is no master of Spark"),
    ],
)
def test_what_cannot_be_reached_is_told_before_anything_is_begun(
    tmp_path: Path, words: tuple[str, ...], said: str
):
    folder = project(tmp_path / "shop")
    refused = headwater(folder, "promote", *words)
    assert refused.returncode in (1, 2)
    assert said in refused.stderr
    assert not (folder / "data" / "promote.json").exists()


def test_a_project_that_runs_is_not_moved(tmp_path: Path):
    folder = project(tmp_path / "shop")
    (folder / "data" / "up").mkdir(parents=True)
    with (folder / "data" / "up" / "lock").open("ab") as lock:  # as its supervisor does
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = headwater(folder, "promote", "--kafka", "127.0.0.1:1")
    assert refused.returncode == 1
    assert "the project is running" in refused.stderr


def test_a_registry_s_schemas_come_along_with_their_ids(tmp_path: Path, kafka: str):
    folder = project(tmp_path / "shop")
    texts = ['{"type":"fixed","name":"F","size":1}', '{"type":"fixed","name":"G","size":2}']
    with (
        moving.log(folder) as broker,
        serving(broker.bootstrap) as url,
        RegistryClient(url) as asked,
    ):
        ids = [asked.register(f"moved-{n}", Schema(text)) for n, text in enumerate(texts)]
        asked.set_level("FULL", "moved-1")
    ran = headwater(folder, "promote", "--kafka", kafka)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with serving(kafka) as url, RegistryClient(url) as asked:
        assert [asked.version(f"moved-{n}").id for n in (0, 1)] == ids
        assert [asked.by_id(each).text for each in ids] == texts
        assert asked.level("moved-1") == "FULL"
        assert asked.register("moved-new", Schema('{"type":"fixed","name":"H","size":3}')) > max(
            ids
        )
