"""Who asks: answers find their questions, whoever else is answered meanwhile; and time runs out clearly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headwater.testing
from headwater.processing.request_reply import Asker, NotAnswered, ask
from headwater.processing.request_reply.headers import CORRELATION_ID, REPLY_TOPIC


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with headwater.testing.broker(settings={"num.partitions": 1}) as broker:
        Producer({"bootstrap.servers": broker.bootstrap}).list_topics("questions", 10)
        yield broker.bootstrap


@contextmanager
def answering(bootstrap: str) -> Iterator[None]:
    """Somebody who answers with the square, the latest question first."""
    done = threading.Event()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "answering"})
    _, end = consumer.get_watermark_offsets(TopicPartition("questions", 0), timeout=60)
    consumer.assign([TopicPartition("questions", 0, end)])
    producer = Producer({"bootstrap.servers": bootstrap})

    def answer() -> None:
        while not done.is_set():
            for question in reversed(consumer.consume(100, 0.05)):
                headers = dict(question.headers())
                value = json.dumps(json.loads(question.value()) ** 2)
                told = [(CORRELATION_ID, headers[CORRELATION_ID])]
                producer.produce(headers[REPLY_TOPIC].decode(), value, headers=told)
            producer.flush(60)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        consumer.close()


def test_many_ask_at_once_and_each_gets_its_own_answer(bootstrap: str):
    with (
        answering(bootstrap),
        Asker(bootstrap, replies="squares") as asker,
        Asker(bootstrap, replies="squares") as other,
        ThreadPoolExecutor(8) as threads,
    ):
        first = [threads.submit(asker.ask, "questions", "k", n, 60) for n in range(40)]
        second = [threads.submit(other.ask, "questions", "k", n, 60) for n in range(40, 50)]
        squares = [each.result().value for each in [*first, *second]]
        assert squares == [n * n for n in range(50)]
        assert ask("questions", None, 12, 60, bootstrap=bootstrap).value == 144


def test_a_question_that_nobody_answers_ends_with_where_it_is(bootstrap: str):
    with Asker(bootstrap, replies="squares") as asker:
        with answering(bootstrap):
            assert asker.ask("questions", "k", 2, timeout=60).value == 4
        with pytest.raises(NotAnswered, match=r"within 10 s; the question is at questions:0=\d+"):
            asker.ask("questions", "k", 3, timeout=10)
        with pytest.raises(NotAnswered, match="did not take the question"):
            asker.ask("a topic/that cannot be", "k", 3, timeout=1)


def test_an_answer_that_is_no_json_is_told_to_its_asker_and_to_nobody_else(bootstrap: str):
    producer = Producer({"bootstrap.servers": bootstrap})
    with answering(bootstrap), Asker(bootstrap, replies="squares") as asker:

        def spoil(question: object) -> None:
            """Answer every question that waits, in a form that nobody understands."""
            with asker._lock:
                waiting = list(asker._waiting)
            for each in waiting:
                producer.produce("squares", b"\xff{", headers=[(CORRELATION_ID, each)])
            producer.flush(60)

        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(asker.ask, "unanswered", "k", 1, 60)
            while not asked.done():
                spoil(asked)
            with pytest.raises(NotAnswered, match="is not understood"):
                asked.result()
        assert asker.failures
        assert asker.ask("questions", "k", 3, 60).value == 9, "its thread goes on"
