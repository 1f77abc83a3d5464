"""Questions and answers over a broker and Spark: each answered once, with the state of its own moment."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from confluent_kafka import Producer

import headwater as hw
from headwater.processing import joins, request_reply
from headwater.processing.request_reply.headers import CORRELATION_ID, REPLY_TOPIC
from headwater.testing.rehearsal import Rehearsal
from tests.processing.killing import forget_the_last_commit, one_partition


def answers() -> Any:
    questions = request_reply.requests("questions", schema="account STRING, n BIGINT")
    accounts = joins.changes("accounts", schema="id STRING, balance BIGINT", key="id")
    return joins.enrich(questions, accounts, on="account", groups=2)


@pytest.mark.timeout(900)
def test_every_question_is_answered_once_with_the_state_of_its_moment(headwater_test: Rehearsal):
    hw.view("answers", to="replies:")(answers)
    for topic in ("questions", "accounts", "replies", "others"):
        headwater_test.topic(topic)
    bank = Bank(headwater_test)
    #  balance   ──5──────7───────deleted──▶
    #  asked        a  b     c d         e
    with one_partition(headwater_test):
        bank.put(5)
        bank.ask(b"a")
        headwater_test.run("answers")
        bank.ask(b"b")
        bank.put(7)
        bank.ask(b"c")
        bank.ask(b"d", replies="others")
        headwater_test.run("answers")
        forget_the_last_commit(headwater_test, "answers")
        bank.put(None)
        bank.ask(b"e")
        bank.ask(b"bad", replies="nowhere")
        bank.ask(b"bad", replies=None)
        bank.ask(b"bad", value=b'{"n": "x"}')
        headwater_test.run("answers")
    assert told(headwater_test, "replies") == {b"a": 5, b"b": 5, b"c": 7, b"e": None}
    assert told(headwater_test, "others") == {b"d": 7}
    letters = headwater_test.records("dlq.headwater-answers")
    reasons = sorted(dict(each.headers())["__dlq.errors.message"].decode() for each in letters)
    assert len(reasons) == 3, reasons
    assert "must have the header kafka_replyTopic" in reasons[0]
    assert "does not fit the schema" in reasons[1]
    assert "the topic for its answer, nowhere, is not there" in reasons[2]

    # The same view, asked by the client: it runs on while somebody waits.
    with request_reply.Asker(headwater_test.bootstrap, replies="replies") as asker:
        found: list[request_reply.Answer] = []

        def ask() -> None:
            found.append(asker.ask("questions", "k", {"account": "ada", "n": 1}, timeout=100))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.value["balance"] for each in found] == [None] * 3
        assert len({each.request for each in found}) == 3
        headwater_test.stop()
        with pytest.raises(
            request_reply.NotAnswered, match=r"no answer from questions within 10 s"
        ):
            asker.ask("questions", "k", {"account": "ada"}, timeout=10)


class Bank:
    def __init__(self, rehearsal: Rehearsal) -> None:
        self._clock = rehearsal.clock
        self._producer = Producer({"bootstrap.servers": rehearsal.bootstrap, "log_level": 0})

    def put(self, balance: int | None) -> None:
        value = None if balance is None else f'{{"id": "ada", "balance": {balance}}}'.encode()
        self._send("accounts", value, b"ada", [])

    def ask(
        self,
        name: bytes,
        replies: str | None = "replies",
        value: bytes = b'{"account": "ada", "n": 1}',
    ) -> None:
        headers = [(CORRELATION_ID, name)]
        if replies is not None:
            headers.append((REPLY_TOPIC, replies.encode()))
        self._send("questions", value, name, headers)

    def _send(self, topic: str, value: bytes | None, key: bytes, headers: list[Any]) -> None:
        now = self._clock.advance(1000)
        self._producer.produce(topic, value, key, timestamp=now, headers=headers)
        assert self._producer.flush(60) == 0


def told(rehearsal: Rehearsal, topic: str) -> dict[bytes, int | None]:
    records = rehearsal.records(topic)
    found = {
        dict(each.headers())[CORRELATION_ID]: json.loads(each.value())["balance"]
        for each in records
    }
    assert len(found) == len(records), "answered twice"
    return found
