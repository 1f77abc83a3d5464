"""Kafka Streams in its own group protocol (KIP-1071): the broker makes topics, assigns tasks, takes over."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.testing.apache_kafka import QUICK_JVM, java_tool
from tests.compat.cluster import Cluster, headwater_process
from tests.compat.confluent import consumer, producer, send
from tests.compat.heartbeats import set_group_config
from tests.compat.streaming import described
from tests.compat.waiting import until
from tests.ecosystem.programs import Program, java, running
from tests.ecosystem.test_streams import LINES, Counts, counted

pytestmark = pytest.mark.timeout(900)
PROGRAM = Path(__file__).parent / "java" / "CountWords.java"


class Application:
    """A word count with its topics; each instance has a folder and a port of its own."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self._folder = cluster, name, folder
        # Kafka's tool takes what begins with the application's name for its own.
        self.lines, self.words = f"lines-of-{name}", f"words-of-{name}"
        cluster.create_topic(self.lines, 4)
        cluster.create_topic(self.words, 2)
        cluster.created.extend(
            f"{name}-{each}" for each in ("words-repartition", "counts-changelog")
        )
        with cluster.wire() as wire:
            set_group_config(wire, name, "streams.session.timeout.ms", "5000")

    def instance(self, port: int) -> contextlib.AbstractContextManager[Program]:
        state, log = str(self._folder / f"state-{port}"), self._folder / f"log-{port}"
        names = (self.cluster.bootstrap, self.name, self.lines, self.words, state)
        command = java(str(PROGRAM), *names, f"127.0.0.1:{port}", "exactly_once_v2")
        return running(command, log)

    def send(self, *lines: str) -> None:
        send(producer(self.cluster), self.lines, lines)

    @contextlib.contextmanager
    def counts(self) -> Iterator[Counts]:
        group = f"{self.name}-reader"
        with consumer(self.cluster, group, isolation_level="read_committed") as reader:
            reader.subscribe([self.words])
            yield Counts(reader)

    def state(self) -> Any:
        with self.cluster.wire() as wire:
            return described(wire, self.name)

    def shares(self) -> list[int]:
        """How many active tasks each process has, once all of them have what they are to have."""
        found = self.state()
        if found.group_state != "Stable":
            return []
        return sorted(
            sum(len(each.partitions) for each in member.assignment.active_tasks)
            for member in found.members
        )

    def committed(self) -> int:
        """The sum of the source topic's committed offsets, as the tool prints them."""
        said = self.tool("--describe", "--group", self.name, "--offsets", "--verbose")
        return sum(map(int, re.findall(rf"{self.lines}\s+\d+\s+(\d+)\s", said)))

    def tool(self, *arguments: str) -> str:
        done = java_tool(
            "org.apache.kafka.tools.streams.StreamsGroupCommand",
            *("--bootstrap-server", self.cluster.bootstrap, *arguments),
            jvm=QUICK_JVM,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_two_instances_share_the_tasks_and_one_takes_over_when_the_other_is_killed(
    cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    application = Application(cluster, new_name(), tmp_path)
    application.send(*LINES)
    with application.counts() as heard, application.instance(7001) as first:
        first.until(lambda: heard.are(counted(*LINES)), "the first counts")
        assert application.shares() == [8]
        with application.instance(7002) as second:
            second.until(lambda: application.shares() == [4, 4], "both to have half of the tasks")
            first.until(lambda: "HOSTS 7001=4 7002=4" in first.said, "both to be asked for counts")
            application.send(*LINES)
            second.until(lambda: heard.are(counted(*LINES, *LINES)), "the counts of both")
            second.kill()
        application.send(LINES[0])
        first.until(
            lambda: heard.are(counted(*LINES, *LINES, LINES[0])), "the counts after the kill"
        )
        assert application.shares() == [8]
        assert set(heard.seen.values()) == {1}, "a count was written twice"
        first.stop()
    until(lambda: application.state().group_state == "Empty", "the group to be empty")


@pytest.mark.soak
def test_kafkas_tool_describes_resets_and_deletes(
    cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    application = Application(cluster, new_name(), tmp_path)
    for partition in range(4):  # the tool resets only what has been committed
        send(producer(cluster), application.lines, LINES[:1], partition=partition)
    said = LINES[:1] * 4
    name, mine = application.name, ("--group", application.name)
    with application.counts() as heard, application.instance(7003) as program:
        program.until(lambda: heard.are(counted(*said)), "the counts")
        program.until(lambda: application.shares() == [8], "a stable group")
        assert re.search(rf"^{name}\s+Stable", application.tool("--list", "--state"), re.MULTILINE)
        state = application.tool("--describe", *mine, "--state", "--verbose")
        assert re.search(rf"{name}\s.*Stable\s+\d+\s+\d+\s+1\s*$", state, re.MULTILINE)
        members = application.tool("--describe", *mine, "--members", "--verbose")
        assert "TARGET-ACTIVE: 0:[0,1,2,3]; 1:[0,1,2,3];" in members
        program.until(lambda: application.committed() == len(said), "the offsets to be committed")
        program.stop()
    until(lambda: application.state().group_state == "Empty", "the group to be empty")
    reset = ("--reset-offsets", *mine, "--to-earliest", "--execute", "--input-topic")
    moved = application.tool(*reset, application.lines)
    assert len(re.findall(rf"^{name}\s+{application.lines}\s+\d\s+0\s*$", moved, re.MULTILINE)) == 4
    application.tool("--delete", *mine)
    assert name not in application.tool("--list").splitlines()


@pytest.mark.soak  # in `make test`: broker/groups/streams/test_heartbeats, a restart goes on where it was
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_application_goes_on_over_a_restart_of_the_broker(
    new_name: Callable[[], str], tmp_path: Path, how: signal.Signals
) -> None:
    data = tmp_path / "data"
    with headwater_process(data) as (bootstrap, process), contextlib.ExitStack() as open_things:
        application = Application(Cluster("headwater", bootstrap), new_name(), tmp_path)
        application.send(*LINES)
        heard = open_things.enter_context(application.counts())
        program = open_things.enter_context(application.instance(7004))
        program.until(lambda: heard.are(counted(*LINES)), "the first counts")
        program.until(lambda: application.shares() == [8], "a stable group")
        before = application.state()
        process.send_signal(how)
        assert process.wait(60) in (0, -signal.SIGKILL)
        kept = open_things.pop_all()
    port = int(bootstrap.rpartition(":")[2])
    with kept, headwater_process(data, port):
        after = application.state()
        assert (after.group_state, after.group_epoch) == ("Stable", before.group_epoch)
        assert after.members == before.members, "nobody has to join again"
        application.send(*LINES)
        program.until(lambda: heard.are(counted(*LINES, *LINES)), "the counts after the restart")
        assert set(heard.seen.values()) == {1}, "a count was written twice"
