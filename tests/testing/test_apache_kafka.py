"""The launcher of a real Apache Kafka: it starts, answers, stops, and says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.testing.apache_kafka import (
    KAFKA_VERSION,
    QUICK_JVM,
    KafkaStartError,
    MissingServer,
    apache_kafka,
    java_tool,
    kafka_jars,
)

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(autouse=True)
def _needs_java_and_maven(request: pytest.FixtureRequest) -> None:
    if "without_programs" not in request.fixturenames:
        try:
            kafka_jars()
        except MissingServer as missing:
            if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
                raise
            pytest.skip(f"Apache Kafka cannot run here: {missing}")


@pytest.fixture
def without_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def topics(bootstrap: str, *arguments: str) -> str:
    done = java_tool(TOPICS, "--bootstrap-server", bootstrap, *arguments, jvm=QUICK_JVM)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_starts_answers_keeps_its_log_dir_and_is_gone_after(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    with apache_kafka({"num.partitions": 3}, heap="256m", log_dir=log_dir, jvm=QUICK_JVM) as kafka:
        assert kafka.data == log_dir
        here = ("--bootstrap-server", kafka.bootstrap)
        made = kafka.tool(TOPICS, *here, "--create", "--topic", "a", jvm=QUICK_JVM)
        assert made.stdout == "Created topic a.\n"
        assert "PartitionCount: 3" in topics(kafka.bootstrap, "--describe", "--topic", "a")
        assert (log_dir / "a-2").is_dir()
        home = kafka.log.parent
    with pytest.raises(ProcessLookupError):
        os.kill(kafka.pid, 0)
    assert not home.exists()
    with apache_kafka(heap="256m", log_dir=log_dir, jvm=QUICK_JVM) as again:
        assert topics(again.bootstrap, "--list") == "a\n"


def test_a_wrong_setting_is_told_with_kafkas_own_words() -> None:
    with (
        pytest.raises(KafkaStartError, match=r"log\.segment\.bytes"),
        apache_kafka({"log.segment.bytes": "many"}),
    ):
        pass


@pytest.mark.usefixtures("without_programs")
def test_without_java_or_maven_the_error_says_what_to_install() -> None:
    with pytest.raises(MissingServer, match="apt-get install"):
        kafka_jars()
    with pytest.raises(MissingServer, match="apt-get install"), apache_kafka():
        pass


SLOW_MAVEN = """#!/bin/sh
for word; do case $word in -DoutputDirectory=*) folder=${word#*=};; esac; done
sleep 0.3
mkdir -p "$folder" && touch "$folder/kafka-clients-0.jar"
"""


def test_two_processes_resolve_the_jars_once(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").write_text(SLOW_MAVEN)
    (programs / "mvn").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    only_one_of_two_fetches(tmp_path / "cache", {**os.environ, "PATH": path})


@pytest.mark.soak
def test_two_processes_resolve_the_real_jars_once(tmp_path: Path) -> None:
    only_one_of_two_fetches(tmp_path, dict(os.environ))


def only_one_of_two_fetches(cache: Path, environment: dict[str, str]) -> None:
    """Each says where the jars are; only one says that it fetches them."""
    code = "from headwater.testing.apache_kafka import kafka_jars; print(kafka_jars())"
    environment = {**environment, "XDG_CACHE_HOME": str(cache)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [each.communicate(timeout=110) for each in both]
    expected = cache / "headwater" / f"kafka-{KAFKA_VERSION}"
    assert [Path(out.strip()) for out, _ in said] == [expected, expected]
    assert sum("Maven fetches" in err for _, err in said) == 1
    assert list(expected.glob("kafka-clients-*.jar"))
    assert {each.name for each in expected.parent.iterdir()} == {
        expected.name,
        f"{expected.name}.lock",
    }
