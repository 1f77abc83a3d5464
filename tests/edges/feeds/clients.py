"""Clients of changefeeds as programs have them: httpx-sse in a thread, with all that it has read so far."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from httpx_sse import EventSource

from headwater.client.log import Log
from tests.edges.running import until


class Reader:
    """What has come: events in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Any]] = []
        """(event, id, data)"""
        self.is_over = False

    def records(self) -> list[Any]:
        return [data for event, _, data in self.list() if event == "message"]

    def values(self) -> list[Any]:
        return [each["value"] for each in self.records()]

    def list(self) -> list[tuple[str, str, Any]]:
        return [each for each in self.events if each[0] != "heartbeat"]

    def named(self, name: str) -> list[Any]:
        return [data for event, _, data in self.events if event == name]

    @property
    def last_id(self) -> str:
        return next(id for _, id, _ in reversed(self.events) if id)


@contextmanager
def following(url: str, headers: dict[str, str] | None = None, **words: Any) -> Iterator[Reader]:
    """Open when this returns: what is stored from then on comes."""
    reader, answered = Reader(), threading.Event()
    errors: list[BaseException] = []
    client = httpx.Client(timeout=60)
    asked = client.build_request(
        "GET", url, params=words, headers={"accept": "text/event-stream", **(headers or {})}
    )

    def read() -> None:
        try:
            answer = client.send(asked, stream=True)
            if answer.status_code != 200:
                raise AssertionError(f"{answer.status_code}: {answer.read().decode()}")
            answers.append(answer)
            answered.set()
            for each in EventSource(answer).iter_sse():
                reader.events.append((each.event, each.id, json.loads(each.data)))
        except httpx.HTTPError:
            pass  # closed, by the test or by the server
        except BaseException as error:
            errors.append(error)
        finally:
            reader.is_over = True
            answered.set()

    answers: list[httpx.Response] = []
    thread = threading.Thread(target=read, name="sse client")
    thread.start()
    try:
        assert answered.wait(60)
        assert not errors, errors
        yield reader
    finally:
        if answers:
            _shut(answers[0])
        thread.join(60)
        client.close()
    assert not errors, errors
    assert not thread.is_alive()


def _shut(answer: httpx.Response) -> None:
    """Close the socket under the thread that reads it."""
    stream = answer.extensions["network_stream"]
    sock = stream.get_extra_info("socket")
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the server was quicker


def put(log: Log, topic: str, *values: Any) -> None:
    """Store values as JSON: each a value, or (key, value)."""
    producer = log.producer
    for each in values:
        key, value = each if isinstance(each, tuple) else (None, each)
        data = None if value is None else json.dumps(value).encode()
        producer.produce(topic, data, key)
    assert producer.flush(60) == 0


def wait_for(reader: Reader, count: int, seconds: float = 60) -> None:
    until(lambda: len(reader.records()) >= count, f"{count} records", seconds)
