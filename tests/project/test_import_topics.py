"""Topics of Apache Kafka come into a project's log: the same records at the same offsets, or nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.broker.broker import Broker
from headwater.client.settings import alter_topic, of_topic
from headwater.project.promote.arrival import Arrival
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests import fork_server
from tests.compat.missing import skip_or_fail
from tests.project import moving
from tests.project.test_promote import TOPICS, a_hard_log

pytestmark = pytest.mark.timeout(900)
LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """A cluster with all that makes offsets hard to keep."""
    try:
        with apache_kafka({"log.cleaner.backoff.ms": "50"}, jvm=QUICK_JVM) as server:
            a_hard_log(server.bootstrap)
            yield server.bootstrap
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with moving.log(tmp_path) as found:
        (tmp_path / "headwater.toml").write_text(f'[log]\nlisten = "{found.bootstrap}"\n')
        yield found


def imported(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.headwater("import", *words, cwd=folder)


def names(bootstrap: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")}


def position(bootstrap: str, group: str) -> list[tuple[str, int, str | None]]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    (found,) = [each.result(30) for each in asked.values()]
    return [(each.topic, each.offset, each.metadata) for each in found.topic_partitions]


def test_every_reader_finds_the_same_at_the_same_offsets_and_a_second_run_brings_the_rest(
    tmp_path: Path, kafka: str, broker: Broker
) -> None:
    tried = imported(tmp_path, "--from", kafka, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "Nothing has been changed." in tried.stdout
    assert "33 before the logs' starts, and positions of 2 groups" in tried.stdout
    assert names(broker.bootstrap) == set()

    ran = imported(tmp_path, "--from", kafka)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    same(kafka, broker.bootstrap)
    assert position(broker.bootstrap, "readers") == [("plain", 7, "note of readers")]

    moving.produce(kafka, "plain", range(50, 80))
    again = imported(tmp_path, "--from", kafka)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Went on with what an earlier run had brought" in again.stdout
    same(kafka, broker.bootstrap)


def same(kafka: str, here: str) -> None:
    assert moving.ends(here, TOPICS) == moving.ends(kafka, TOPICS)
    for level in LEVELS:
        assert moving.seen(here, TOPICS, level) == moving.seen(kafka, TOPICS, level), level


def test_chosen_topics_come_alone_and_what_is_here_already_is_left_alone(
    tmp_path: Path, kafka: str, broker: Broker
) -> None:
    moving.create(broker.bootstrap, "plain")
    moving.produce(broker.bootstrap, "plain", range(3))
    refused = imported(tmp_path, "--from", kafka, "--topic", "p*")
    assert refused.returncode == 1
    assert "this log has topics of these names already: plain" in refused.stderr
    assert moving.ends(broker.bootstrap, ["plain"]) == {("plain", 0): (0, 3)}
    ran = imported(tmp_path, "--from", kafka, "--topic", "wide", "--topic", "ear*")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert names(broker.bootstrap) == {"early", "plain", "wide"}
    nothing = imported(tmp_path, "--from", kafka, "--topic", "nowhere")
    assert nothing.returncode == 1 and "has no topic nowhere" in nothing.stderr


def test_a_topic_that_has_got_records_of_its_own_is_never_made_anew(
    tmp_path: Path, kafka: str, broker: Broker
) -> None:
    assert imported(tmp_path, "--from", kafka, "--topic", "early").returncode == 0
    moving.produce(broker.bootstrap, "early", range(5))
    before = moving.seen(broker.bootstrap, ["early"])
    refused = imported(tmp_path, "--from", kafka, "--topic", "early")
    assert refused.returncode == 1
    assert "early has records of its own by now" in refused.stderr
    assert moving.seen(broker.bootstrap, ["early"]) == before


def test_a_run_that_is_refused_gives_topics_back_their_settings(
    tmp_path: Path, broker: Broker
) -> None:
    wanted = {"retention.ms": "987654321", "cleanup.policy": "compact,delete"}
    with moving.log(tmp_path / "other") as other:
        for name in ("kept", "own"):
            moving.create(other.bootstrap, name)
            moving.produce(other.bootstrap, name, range(3))
        assert imported(tmp_path, "--from", other.bootstrap).returncode == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for name in ("kept", "own"):
            alter_topic(admin, name, wanted)
        moving.produce(broker.bootstrap, "own", range(3, 5))
        refused = imported(tmp_path, "--from", other.bootstrap)
    assert refused.returncode == 1
    assert "own has records of its own by now" in refused.stderr
    for name in ("kept", "own"):
        found = of_topic(admin, name)
        assert {each: found[each].value for each in wanted} == wanted, name


def test_a_group_that_is_further_here_stays_where_it_is(
    tmp_path: Path, kafka: str, broker: Broker
) -> None:
    assert imported(tmp_path, "--from", kafka, "--topic", "plain").returncode == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    place = ConsumerGroupTopicPartitions("readers", [TopicPartition("plain", 0, 11)])
    for future in admin.alter_consumer_group_offsets([place]).values():
        future.result(30)
    ran = imported(tmp_path, "--from", kafka, "--topic", "plain")
    assert "Further here than there, and left as they are: readers." in ran.stdout, ran.stderr
    assert [offset for _, offset, _ in position(broker.bootstrap, "readers")] == [11]


def test_an_import_that_broke_off_goes_on_with_the_next_run(
    tmp_path: Path, kafka: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before anything was compared: what is there is gone on with."""
    from headwater.cli.demo_view import _Nobody
    from headwater.project.promote.arrival import Order

    def killed(self: Arrival) -> None:
        raise KeyboardInterrupt

    there, here = ({"bootstrap.servers": each} for each in (kafka, broker.bootstrap))
    with monkeypatch.context() as patch:
        patch.setattr(Arrival, "_compare", killed)
        with pytest.raises(KeyboardInterrupt):
            Arrival(Order(tmp_path, there, here), _Nobody()).run()
    ran = imported(tmp_path, "--from", kafka)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Went on with what an earlier run had brought" in ran.stdout
    same(kafka, broker.bootstrap)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a connector's FILE, or --from with another cluster"),
        (("x.json", "--from", "127.0.0.1:1"), "give a connector's FILE, or --from"),
    ],
)
def test_one_of_the_two_ways_is_named(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    refused = imported(tmp_path, *words)
    assert refused.returncode == 2 and said in " ".join(refused.stderr.split())


def test_the_log_itself_is_not_imported_from(tmp_path: Path, broker: Broker) -> None:
    moving.create(broker.bootstrap, "own")
    refused = imported(tmp_path, "--from", broker.bootstrap)
    assert refused.returncode == 1 and "both addresses are the same cluster" in refused.stderr
