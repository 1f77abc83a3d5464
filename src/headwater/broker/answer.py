"""One answer of a connection, from the moment its request begins until it goes out.

`Exchange` keeps them in the order of the requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

from headwater.broker.registry import NO_ANSWER, Api, Later, Response, never
from headwater.record.varint import Buffer
from headwater.wire import messages


class Answer:
    """A place in the order of answers."""

    __slots__ = ("api", "body", "chunks", "done", "header", "seconds", "since", "size", "task")

    def __init__(self, api: Api, header: messages.Header, size: int, since: float) -> None:
        self.api = api
        self.header = header
        self.size = size
        self.since = since
        self.seconds = 0.0
        """Of our time that it took; measured while there are quotas."""
        self.done = False
        self.body: Response = NO_ANSWER
        self.chunks: list[Buffer] | None = None
        """As it goes out, if it is written already."""
        self.task: asyncio.Future[Any] | Later | None = None

    @property
    def waits_for_others(self) -> bool:
        """For data to come, as long as the client says; what we work on ourselves comes to an end."""
        is_fetch = isinstance(self.task, Later) and self.task.on_cancel is not None
        return is_fetch or (self.api.waits and self.task is not None)

    def encoded(self) -> list[Buffer]:
        header = self.header
        version = max(header.api_version, 0)
        is_list = self.api.lists is not never
        return messages.encode(
            header.api_key, version, header.correlation_id, self.body, is_list=is_list
        )
