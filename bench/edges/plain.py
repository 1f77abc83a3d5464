"""The peer: what one would write in an afternoon, with FastAPI and confluent-kafka, and with the same care.

`python -m bench.edges.plain --bootstrap HOST:PORT --port PORT [--udp PORT --topic NAME]`

Records are acknowledged when they are stored (acks=all), one produce call per record. An event stream is a
queue per client, filled by one consumer. UDP is asyncio's datagram protocol, one produce call per datagram.
It has no limits, no tokens, no filters, no resuming, no schema and no idempotency.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from confluent_kafka import Consumer, Producer, TopicPartition
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse


class Log:
    """One producer, polled by a thread; one consumer for each topic that somebody follows."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1, "log_level": 0,
             "queue.buffering.max.messages": 1_000_000}
        )  # fmt: skip
        self.clients: dict[str, set[asyncio.Queue[bytes]]] = {}
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            self.producer.poll(0.1)

    def send(self, topic: str, value: bytes) -> asyncio.Future[int]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def heard(error: Any, message: Any) -> None:
            if error is None:
                loop.call_soon_threadsafe(done.set_result, message.offset())
            else:
                loop.call_soon_threadsafe(done.set_exception, RuntimeError(str(error)))

        self.producer.produce(topic, value, on_delivery=heard)
        return done

    def follow(self, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        if topic not in self.clients:
            self.clients[topic] = set()
            threading.Thread(target=self._consume, args=(topic, loop), daemon=True).start()

    def _consume(self, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "plain", "log_level": 0,
             "enable.auto.commit": False, "fetch.wait.max.ms": 500}
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, -1)])
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                value = json.loads(message.value() or b"")
                said = json.dumps({"offset": message.offset(), "value": value})
                event = f"id: {message.offset()}\ndata: {said}\n\n".encode()
                loop.call_soon_threadsafe(self._hand_out, topic, event)

    def _hand_out(self, topic: str, event: bytes) -> None:
        for queue in self.clients[topic]:
            queue.put_nowait(event)


def application(log: Log, udp: int | None, udp_topic: str) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if udp is not None:
            loop = asyncio.get_running_loop()
            await loop.create_datagram_endpoint(
                lambda: Datagrams(log, udp_topic), local_addr=("127.0.0.1", udp)
            )
        yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/healthz")
    async def healthz() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/topics/{topic}")
    async def post(topic: str, request: Request) -> dict[str, Any]:
        body = await request.body()
        if request.headers.get("content-type") == "application/x-ndjson":
            sent = []
            for line in body.splitlines():
                json.loads(line)
                sent.append(log.send(topic, line))
            return {"offsets": await asyncio.gather(*sent)}
        json.loads(body)
        return {"offset": await log.send(topic, body)}

    @app.get("/topics/{topic}")
    async def follow(topic: str) -> StreamingResponse:
        log.follow(topic, asyncio.get_running_loop())
        return StreamingResponse(_events(log, topic), media_type="text/event-stream")

    return app


async def _events(log: Log, topic: str) -> AsyncIterator[bytes]:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    log.clients[topic].add(queue)
    try:
        yield b": hello\n\n"
        while True:
            yield await queue.get()
    finally:
        log.clients[topic].discard(queue)


class Datagrams(asyncio.DatagramProtocol):
    """StatsD lines, as far as the benchmark's go: name:value|c|#tags."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic

    def datagram_received(self, data: bytes, _addr: Any) -> None:
        for line in data.decode().splitlines():
            name, _, rest = line.partition(":")
            value, kind, *tags = rest.split("|")
            said = {"name": name, "type": kind, "value": float(value), "tags": tags}
            with contextlib.suppress(BufferError):
                self._log.producer.produce(self._topic, json.dumps(said).encode(), name)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--bootstrap", required=True)
    words.add_argument("--port", type=int, required=True)
    words.add_argument("--udp", type=int)
    words.add_argument("--topic", default="")
    chosen = words.parse_args()
    app = application(Log(chosen.bootstrap), chosen.udp, chosen.topic)
    uvicorn.run(app, host="127.0.0.1", port=chosen.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
