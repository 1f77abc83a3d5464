"""Events as they go over the wire: the lines of Server-Sent Events, or the messages of a WebSocket. Pure.

| event      | when                                             | data                                      |
|------------|--------------------------------------------------|-------------------------------------------|
| (record)   | a record or a row; SSE gives it no name, so that | see `bodies`                              |
|            | a browser hands it to `onmessage`                |                                           |
| `snapshot` | what follows is the state; forget what you had   | {}                                        |
| `live`     | the snapshot is complete, now changes            | {"records": 17}                           |
| `gap`      | records that are not kept any more were missed   | {"partition": 0, "from": 17, "to": 40}    |
| `dropped`  | the end, and why                                 | {"reason": "too slow: …"}                 |
| `heartbeat`| nothing else came for a while; its id says how   | {}                                        |
|            | far a filter that keeps little has come          |                                           |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from headwater.client.records import Record

CHUNK_BYTES = 128 * 1024
RECORD = "record"

Chunk = bytes | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A record with its event: `id` is the position behind it, empty inside a snapshot."""

    record: Record
    id: str
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + len(self.id) + 64


class Wire(Protocol):
    """One of the two ways."""

    name: str

    def records(self, items: Iterable[Item]) -> Iterator[tuple[Chunk, int]]:
        """Chunks of whole events, each with its size."""

    def event(self, name: str, data: dict[str, Any], id: str = "") -> tuple[Chunk, int]: ...

    def heartbeat(self, id: str) -> tuple[Chunk, int]: ...


class ServerSentEvents:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html"""

    name = "sse"

    def records(self, items: Iterable[Item]) -> Iterator[tuple[Chunk, int]]:
        lines: list[bytes] = []
        size = 0
        for item in items:
            id = b"id: %b\n" % item.id.encode() if item.id else b""
            line = b"%bdata: %b\n\n" % (id, item.body)
            lines.append(line)
            size += len(line)
            if size >= CHUNK_BYTES:
                yield b"".join(lines), size
                lines, size = [], 0
        if lines:
            yield b"".join(lines), size

    def event(self, name: str, data: dict[str, Any], id: str = "") -> tuple[Chunk, int]:
        line = b"id: %b\n" % id.encode() if id else b""
        chunk = b"%bevent: %b\ndata: %b\n\n" % (line, name.encode(), orjson.dumps(data))
        return chunk, len(chunk)

    def heartbeat(self, id: str) -> tuple[Chunk, int]:
        # An event with a name and data, as not every client passes over a comment or an id alone in silence.
        return self.event("heartbeat", {}, id)

    @staticmethod
    def greeting() -> bytes:
        """So that the answer's head is sent at once."""
        return b": headwater\n\n"


class Messages:
    """One JSON object per message: {"event": "record", "id": "0=18", "data": {…}}."""

    name = "ws"

    def records(self, items: Iterable[Item]) -> Iterator[tuple[Chunk, int]]:
        texts: list[str] = []
        size = 0
        for item in items:
            texts.append(_message(RECORD, item.id, item.body))
            size += len(texts[-1])
            if size >= CHUNK_BYTES:
                yield tuple(texts), size
                texts, size = [], 0
        if texts:
            yield tuple(texts), size

    def event(self, name: str, data: dict[str, Any], id: str = "") -> tuple[Chunk, int]:
        text = _message(name, id, orjson.dumps(data))
        return (text,), len(text)

    def heartbeat(self, id: str) -> tuple[Chunk, int]:
        return self.event("heartbeat", {}, id)


def _message(event: str, id: str, body: bytes) -> str:
    named = f'"id":"{id}",' if id else ""
    return f'{{"event":"{event}",{named}"data":{body.decode()}}}'


SSE = ServerSentEvents()
WS = Messages()
