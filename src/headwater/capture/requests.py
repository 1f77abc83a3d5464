"""Requests to the capture that runs, from another process: to read tables again.

MySQL and MongoDB have nowhere to leave a message that would reach a reader of their log, and a user who
may only read could not leave one anyhow; so they lie in our log: topic __headwater_NAME_requests, partition
0, each {"snapshot": [table, …]}, with "where" for some rows of one table. Called by the sources of these two;
`headwater capture snapshot` asks. How many were seen is in the position, so each is done once, also across
restarts.
"""

from __future__ import annotations

import json
from typing import Any

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted
from headwater.client.errors import ClientError
from headwater.client.librdkafka import Consumer, KafkaException, TopicPartition
from headwater.client.publisher import Draft, Publisher

Entry = str | dict[str, str]
"""A table, or {"table": …, "where": …}."""


def entry(table: str, where: str | None) -> Entry:
    return {"table": table, "where": where} if where else table


def table_of(entry: Entry) -> str:
    return entry if isinstance(entry, str) else entry["table"]


NO_REQUEST = (AttributeError, RecursionError, TypeError, ValueError)
"""What comes of a message that somebody else has left where requests lie; it must stop no capture."""
TIMEOUT_S = 15.0
AT_ONCE = 100


def topic(config: CaptureConfig) -> str:
    """Among the log's own: a condition is evaluated with the capture's rights, and whoever may write to its
    topics, by a token or from a page, may not ask its database what he likes."""
    return f"__headwater_{config.name}_requests"


def _settings(config: CaptureConfig) -> dict[str, Any]:
    return {"bootstrap.servers": config.bootstrap, "log_level": 0, **config.client}


def ask(config: CaptureConfig, tables: list[str], where: str | None = None) -> None:
    """Leave a request; returns when it is in the log."""
    value = json.dumps({"snapshot": tables, **({} if where is None else {"where": where})})
    publisher = Publisher({"message.timeout.ms": 10_000, **_settings(config)}, TIMEOUT_S)
    try:
        publisher.put(topic(config), Draft(None, value.encode(), partition=0))
    except ClientError as error:
        raise Interrupted(f"the request cannot be left in {topic(config)}: {error}") from error


def _entries(content: bytes) -> list[Entry]:
    try:
        request = json.loads(content)
        tables = [str(name) for name in request.get("snapshot", [])]
        where = str(request.get("where") or "")
        "".join((*tables, where)).encode()  # half of a character cannot be sent to a database
    except NO_REQUEST:
        return []
    return [entry(name, where) for name in tables]


class Requests:
    """Reads them while the capture runs; never waits."""

    def __init__(self, config: CaptureConfig, offset: int) -> None:
        self.offset = offset
        settings = {"group.id": f"headwater-{config.name}", "enable.auto.commit": False}
        latest = {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 500}
        self._consumer = Consumer({**_settings(config), **settings, **latest})
        self._consumer.assign([TopicPartition(topic(config), 0, offset)])

    def take(self) -> list[Entry]:
        """The tables that were asked for since the last time."""
        wanted: list[Entry] = []
        try:
            for message in self._consumer.consume(AT_ONCE, 0):
                if message.error() is None:
                    self.offset = (message.offset() or 0) + 1
                    wanted += _entries(message.value() or b"{}")
        except KafkaException:
            pass  # the writer finds out about a broker that is away
        return wanted

    def close(self) -> None:
        self._consumer.close()
