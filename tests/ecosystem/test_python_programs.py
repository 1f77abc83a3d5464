"""Quix Streams, Faust, Flink and Spark's Kafka connector: words are counted, also after a kill."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from bench.nexmark import flink
from headwater.pipelines import maven
from tests.compat.cluster import Cluster
from tests.compat.confluent import consumer, producer, send
from tests.compat.missing import CANNOT, skip_or_fail
from tests.ecosystem.programs import of_page, python_of, running

pytestmark = pytest.mark.timeout(1800)
LINES = ("to be or not to be", "that is the question")
MORE = ("to sleep no more", "to die to sleep")
Program = tuple[list[str], dict[str, str]]
"""The command but for the file, and what the page's snippet calls otherwise."""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    made: dict[str, str] = {}

    def python(package: str) -> str:
        if package not in made:
            made[package] = python_of(tmp_path_factory.mktemp(package) / "venv", package)
        return made[package]

    return python


@pytest.fixture
def program(
    request: pytest.FixtureRequest, environments: Callable[[str], str], tmp_path: Path
) -> Program:
    state = str(tmp_path / "state")
    match request.getfixturevalue("section"):
        case "Quix Streams":
            return [environments("quixstreams")], {'"state"': f'"{state}"'}
        case "Faust":
            return [environments("faust-streaming")], {'"state"': f'"{state}"'}
        case "Flink":
            return _flink(state)
        case _:
            jars = ",".join(map(str, _fetched(maven.spark_connector)))
            return [sys.executable], {'"state"': f'"{state}"', "spark-kafka.jar": jars}


@pytest.mark.parametrize(
    "section",
    [
        *(
            pytest.param(each, marks=pytest.mark.soak)
            for each in ("Quix Streams", "Faust", "Flink")
        ),
        "Spark's Kafka connector",
    ],
)
def test_words_are_counted(
    section: str, program: Program, cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    """What is killed goes on, or begins anew: either way each word has its count in the end."""
    lines, counts = cluster.create_topic(new_name()), cluster.create_topic(new_name())
    command, replaced = program
    named = {"127.0.0.1:9092": cluster.bootstrap, **replaced, **_topics(section, lines, counts)}
    if section != "Spark's Kafka connector":
        named["word-count"] = new_name()
    file = tmp_path / "count.py"
    file.write_text(of_page(section, named), encoding="utf-8")
    words = ["worker", "-l", "warn"] if section == "Faust" else []
    found: dict[str, int] = {}
    with consumer(cluster, new_name(), isolation_level="read_committed") as reader:
        reader.subscribe([counts])

        def counted(wanted: Iterable[str]) -> Callable[[], bool]:
            def asked() -> bool:
                for each in reader.consume(1000, 0.2):
                    assert not each.error(), each.error()
                    value = json.loads(each.value())
                    found[each.key().decode()] = value["n"] if section == "Flink" else value
                return found == Counter(word for line in wanted for word in line.split())

            return asked

        for sent, wanted in ((LINES, LINES), (MORE, LINES + MORE)):
            send(producer(cluster), lines, sent, key="k")
            with running([*command, str(file), *words], tmp_path / "log") as started:
                started.until(counted(wanted), "the words to be counted")


def _topics(section: str, lines: str, counts: str) -> dict[str, str]:
    """In Flink a table has the topic's name: the topic alone is another."""
    if section != "Flink":
        return {'"lines"': f'"{lines}"', '"words"': f'"{counts}"'}
    return {
        "'topic' = 'lines'": f"'topic' = '{lines}'",
        "'topic' = 'words'": f"'topic' = '{counts}'",
    }


def _flink(state: str) -> Program:
    try:
        python, jar = flink.interpreter(), flink.connector()
    except flink.Missing as missing:
        skip_or_fail(f"Flink {CANNOT}: {missing}")
        raise AssertionError("unreachable") from missing
    replaced = {"/jars/flink-sql-connector-kafka.jar": str(jar), "file:///state": f"file://{state}"}
    return [str(python)], replaced


def _fetched(jars: Callable[[], tuple[Path, ...]]) -> tuple[Path, ...]:
    try:
        return jars()
    except maven.NotFetched as error:
        skip_or_fail(f"Spark's Kafka connector {CANNOT}: {error.args[0]}")
        raise AssertionError("unreachable") from error
