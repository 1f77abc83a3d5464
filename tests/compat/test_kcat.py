"""kcat (Debian's, on librdkafka 2.0): an older client than the others, and the one people type."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from .cluster import Cluster
from .confluent import producer
from .missing import skip_or_fail
from .waiting import until

Kcat = Callable[..., str]


@pytest.fixture
def kcat(cluster: Cluster) -> Kcat:
    program = shutil.which("kcat")
    if program is None:
        skip_or_fail("kcat cannot run here: sudo apt-get install kcat")

    def run(*arguments: str, text: str = "", fails: bool = False) -> str:
        quick = ["-X", "broker.address.family=v4", "-X", "fetch.wait.max.ms=50"]
        if "-P" in arguments:
            quick = quick[:2]
        command = [program, "-b", cluster.bootstrap, *quick, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=100)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")

    return run


def rows(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_metadata_as_text_and_json(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)
    text = kcat("-L", "-t", topic)
    assert f"{cluster.bootstrap} (controller)" in text
    assert f'topic "{topic}" with 3 partitions' in text
    listed = json.loads(kcat("-L", "-J", "-t", topic))
    (found,) = listed["topics"]
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]
    assert [each["name"] for each in listed["brokers"]] == [cluster.bootstrap]
    everything = json.loads(kcat("-L", "-J"))
    assert topic in {each["topic"] for each in everything["topics"]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_in_lines_out(cluster: Cluster, kcat: Kcat, topic: str, codec: str) -> None:
    cluster.create_topic(topic)
    lines = "".join(f"line {each}\n" for each in range(100))
    kcat("-P", "-t", topic, "-z", codec, text=lines)
    assert kcat("-C", "-t", topic, "-e", "-q") == lines


def test_keys_headers_and_nulls(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    cluster.create_topic(topic)
    kcat("-P", "-t", topic, "-K", ":", "-H", "h=1", "-H", "h=2", "-Z", text="k:v\nk2:\n")
    one, two = rows(kcat("-C", "-t", topic, "-e", "-q", "-J"))
    assert (one["key"], one["payload"], one["headers"]) == ("k", "v", ["h", "1", "h", "2"])
    assert (two["key"], two["payload"]) == ("k2", None)


def test_offsets_from_start_end_and_middle(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    cluster.create_topic(topic)
    kcat("-P", "-t", topic, text="".join(f"{each}\n" for each in range(10)))

    def read(*where: str) -> list[int]:
        return [int(each) for each in kcat("-C", "-t", topic, "-e", "-q", *where).split()]

    assert read("-o", "beginning") == list(range(10))
    assert read("-o", "7") == [7, 8, 9]
    assert read("-o", "-2") == [8, 9]
    assert read("-o", "beginning", "-c", "3") == [0, 1, 2]
    assert read("-o", "end") == []


def test_reading_between_two_times(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    cluster.create_topic(topic)
    start = int(time.time() * 1000) - 60_000
    writer = producer(cluster)
    for each in range(10):
        writer.produce(topic, b"%d" % each, timestamp=start + each * 1000)
    writer.flush(60)
    times = [f"s@{start + 2500}", f"e@{start + 6500}"]
    found = kcat("-C", "-t", topic, "-e", "-q", "-o", times[0], "-o", times[1]).split()
    assert found == ["3", "4", "5", "6"]
    assert kcat("-Q", "-t", f"{topic}:0:{start + 2500}").split() == [topic, "[0]", "offset", "3"]
    assert kcat("-Q", "-t", f"{topic}:0:-1").split()[-1] == "10"
    assert kcat("-Q", "-t", f"{topic}:0:-2").split()[-1] == "0"


def test_every_partition_is_reached(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)
    for partition in range(3):
        kcat("-P", "-t", topic, "-p", str(partition), text=f"to {partition}\n")
    found = kcat("-C", "-t", topic, "-e", "-q", "-f", "%p %o %s\n").splitlines()
    assert sorted(found) == ["0 0 to 0", "1 0 to 1", "2 0 to 2"]


def test_a_group_goes_on_where_it_stopped(
    cluster: Cluster, kcat: Kcat, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    kcat("-P", "-t", topic, text="1\n2\n3\n")
    options = ["-X", "auto.offset.reset=earliest", "-e", "-q"]
    assert kcat("-G", group, *options, topic).split() == ["1", "2", "3"]
    kcat("-P", "-t", topic, text="4\n")
    assert kcat("-G", group, *options, topic).split() == ["4"]


def test_an_idempotent_producer_and_log_append_time(
    cluster: Cluster, kcat: Kcat, topic: str
) -> None:
    cluster.create_topic(topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", text="a\nb\n")
    for row in rows(kcat("-C", "-t", topic, "-e", "-q", "-J")):
        assert row["tstype"] == "logappend"
        assert row["ts"] >= before - 1


def test_producing_to_a_missing_topic_creates_it(cluster: Cluster, kcat: Kcat, topic: str) -> None:
    until(lambda: kcat("-P", "-t", topic, text="first\n") == "", "the topic")
    assert kcat("-C", "-t", topic, "-e", "-q").strip() == "first"


def test_reading_a_missing_topic_is_an_error(kcat: Kcat, topic: str) -> None:
    options = ["-X", "allow.auto.create.topics=false"]
    said = kcat("-C", "-t", topic, "-e", "-q", *options, fails=True)
    assert "Unknown topic" in said
