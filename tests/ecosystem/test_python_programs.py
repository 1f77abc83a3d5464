"""Quix Streams and Faust, each in an environment of its own: words are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.cluster import Cluster
from tests.compat.confluent import consumer, producer, send
from tests.ecosystem.programs import of_page, python_of, running

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
LINES = ("to be or not to be", "that is the question", "to sleep no more")
WANTED = Counter(word for line in LINES for word in line.split())


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    made: dict[str, str] = {}

    def python(package: str) -> str:
        if package not in made:
            made[package] = python_of(tmp_path_factory.mktemp(package) / "venv", package)
        return made[package]

    return python


@pytest.mark.parametrize(
    ("section", "package", "words"),
    [
        ("Quix Streams", "quixstreams", ()),
        ("Faust", "faust-streaming", ("worker", "-l", "warn")),
    ],
)
def test_words_are_counted(
    section: str,
    package: str,
    words: tuple[str, ...],
    cluster: Cluster,
    environments: Callable[[str], str],
    new_name: Callable[[], str],
    tmp_path: Path,
) -> None:
    lines, counts = cluster.create_topic(new_name()), cluster.create_topic(new_name())
    named = {
        "127.0.0.1:9092": cluster.bootstrap,
        '"word-count"': f'"{new_name()}"',
        '"lines"': f'"{lines}"',
        '"words"': f'"{counts}"',
        '"state"': f'"{tmp_path / "state"}"',
    }
    program = tmp_path / "count.py"
    program.write_text(of_page(section, named), encoding="utf-8")
    send(producer(cluster), lines, LINES, key="k")
    found: dict[str, int] = {}
    with (
        running([environments(package), str(program), *words], tmp_path / "log") as started,
        consumer(cluster, new_name(), isolation_level="read_committed") as reader,
    ):
        reader.subscribe([counts])

        def are_counted() -> bool:
            for each in reader.consume(1000, 0.2):
                assert not each.error(), each.error()
                found[each.key().decode()] = int(each.value())
            return found == WANTED

        started.until(are_counted, "the words to be counted")
