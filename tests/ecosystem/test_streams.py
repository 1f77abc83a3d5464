"""Kafka Streams: a word count with exactly_once_v2, killed and gone on with from its changelog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.compat.cluster import Cluster
from tests.compat.confluent import consumer, producer, send
from tests.ecosystem.programs import java, of_page, running

pytestmark = pytest.mark.timeout(900)
LINES = ("to be or not to be", "that is the question", "to sleep no more")


class Counts:
    """The newest count of each word, as far as it is committed."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.found: dict[str, int] = {}
        self.seen: Counter[tuple[str, int]] = Counter()

    def are(self, wanted: Counter[str]) -> bool:
        for each in self._consumer.consume(1000, 0.2):
            assert not each.error(), each.error()
            word, count = each.key().decode(), int.from_bytes(each.value(), "big")
            self.found[word] = count
            self.seen[word, count] += 1
        return self.found == wanted


def counted(*lines: str) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


def program(folder: Path, cluster: Cluster, application: str, lines: str, counts: str) -> list[str]:
    """The page's program, with a state of its own."""
    folder.mkdir()
    source = folder / "WordCount.java"
    named = {
        "127.0.0.1:9092": cluster.bootstrap,
        '"word-count"': f'"{application}"',
        '"lines"': f'"{lines}"',
        '"words"': f'"{counts}"',
        '"state"': f'"{folder / "state"}"',
    }
    source.write_text(of_page("Kafka Streams", named), encoding="utf-8")
    return java(str(source))


def test_words_are_counted_exactly_once_across_a_kill(
    cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    application, lines, counts = new_name(), new_name(), new_name()
    cluster.create_topic(lines, 2)
    cluster.create_topic(counts, 2)
    names = (cluster, application, lines, counts)
    sender = producer(cluster)
    with consumer(cluster, new_name(), isolation_level="read_committed") as reader:
        reader.subscribe([counts])
        heard = Counts(reader)
        send(sender, lines, LINES)
        with running(program(tmp_path / "first", *names), tmp_path / "log") as first:
            first.until(lambda: heard.are(counted(*LINES)), "the first counts")
            first.kill()
        send(sender, lines, LINES[:1])
        # Another folder: what was counted comes from the changelog, as on another machine.
        with running(program(tmp_path / "other", *names), tmp_path / "log") as other:
            other.until(lambda: heard.are(counted(*LINES, LINES[0])), "the counts after the kill")
        assert set(heard.seen.values()) == {1}, "a count was written twice"
