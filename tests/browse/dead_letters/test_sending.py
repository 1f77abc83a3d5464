"""Dead letters sent back one by one, mended, dismissed, and the rest in order: each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.browse.dead_letters.replay import Correction, dismiss, replay, send_one
from headwater.browse.dead_letters.survey import LettersRefused, open_letters
from headwater.client.errors import RequestRefused
from headwater.project.broker_process import BrokerProcess
from headwater.record.dead_letter import HEADER


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder / "log") as broker:
        broker.start()
        yield {"bootstrap.servers": broker.bootstrap}
        broker.stop()


def write_letters(settings: dict[str, str], topic: str, source: str, *values: str) -> None:
    producer = Producer({**settings, "log_level": 0})
    for number, value in enumerate(values):
        said = {"topic": source, "partition": 0 if source else -1, "offset": number, "group": "g"}
        said["message"] = "bad" if number % 2 else "worse"
        headers = [(HEADER + name, str(text).encode()) for name, text in said.items()]
        producer.produce(topic, value, f"k{number}", headers=[("trace", b"9"), *headers])
    assert producer.flush(60) == 0


def values_of(settings: dict[str, str], topic: str) -> list[tuple[bytes | None, bytes | None]]:
    own = {"group.id": "x", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, **own, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        assert message.headers() == [("trace", b"9")]
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def waiting(settings: dict[str, str], topic: str) -> list[int]:
    with open_letters(settings, topic) as letters:
        return [letter.offset for letter in letters.waiting()]


@pytest.mark.parametrize(("source", "to"), [("__headwater_keys", ""), ("orders", "headwater.keys")])
def test_a_letter_goes_to_no_topic_of_the_logs_own(
    settings: dict[str, str], source: str, to: str
) -> None:
    """Its headers say what whoever wrote it liked: a tombstone among the keys would forget somebody."""
    topic = f"dlq.forged-{source}"
    write_letters(settings, topic, source, "a")
    with pytest.raises(RequestRefused, match="is the log's own"):
        replay(settings, topic, to=to)
    with pytest.raises(RequestRefused, match="is the log's own"):
        send_one(settings, topic, Correction(0, 0), to=to)
    assert waiting(settings, topic) == [0]
    dismiss(settings, topic, 0, 0)
    assert waiting(settings, topic) == []


def test_letters_are_mended_dismissed_and_replayed_each_once(settings):
    write_letters(settings, "dlq.g", "orders", *"abcdef")
    with open_letters(settings, "dlq.g") as letters:
        found = letters.survey(most=100, first=2)
        assert (found.waiting, found.is_whole, letters.counts()) == (6, True, (6, 6))
        assert found.reasons == {"worse": 3, "bad": 3}
        assert [letter.value for letter in found.first] == [b"a", b"b"]
        assert letters.survey(most=2).is_whole is False

    assert send_one(settings, "dlq.g", Correction(0, 3, b"D", is_changed=True)) == "orders"
    assert send_one(settings, "dlq.g", Correction(0, 1)) == "orders"
    dismiss(settings, "dlq.g", 0, 0)
    assert waiting(settings, "dlq.g") == [2, 4, 5]
    for again in (0, 1, 3):
        with pytest.raises(LettersRefused, match="already"):
            send_one(settings, "dlq.g", Correction(0, again))

    assert replay(settings, "dlq.g", limit=1) == 1
    assert waiting(settings, "dlq.g") == [4, 5]
    told: list[int] = []
    assert replay(settings, "dlq.g", tell=told.append) == 2
    assert replay(settings, "dlq.g") == 0
    assert told == [2]
    assert values_of(settings, "orders") == [
        (b"k3", b"D"),
        (b"k1", b"b"),
        (b"k2", b"c"),
        (b"k4", b"e"),
        (b"k5", b"f"),
    ]


def test_a_letter_of_no_single_record_needs_a_topic(settings):
    write_letters(settings, "sums.dead-letters", "", '{"total":1}')
    with pytest.raises(LettersRefused, match="no single record"):
        replay(settings, "sums.dead-letters")
    assert send_one(settings, "sums.dead-letters", Correction(0, 0), to="mended") == "mended"
    assert values_of(settings, "mended") == [(b"k0", b'{"total":1}')]
    assert waiting(settings, "sums.dead-letters") == []


def test_a_letter_that_is_not_there_is_one_sentence(settings):
    write_letters(settings, "dlq.few", "orders", "a")
    with pytest.raises(LettersRefused, match="no dead letter at 0:7"):
        dismiss(settings, "dlq.few", 0, 7)
    with pytest.raises(LettersRefused, match="there is no topic"):
        replay(settings, "dlq.absent")
