"""Two brokers that answer the config APIs: headwater, and a real Apache Kafka.

A test that takes `node` runs against both and must find the same; `ours` is headwater alone. Every
request travels as bytes in the version it names, so the wire forms are tested along the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headwater.broker.broker import Broker
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from headwater.wire import writer


class Node:
    """A connection to a broker, with words for the config APIs."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        self.send(key, version, **fields)
        return self.receive(key, version)

    def send(self, key: int, version: int, **fields: Any) -> None:
        request: Any = load_request_schema(key, version)
        out = io.BytesIO()
        out.write(struct.pack(">hhih", key, version, 7, 4) + b"test")
        out.write(b"\0" if request.__flexible__ else b"")
        entity_writer(request)(out, request(**fields))
        self._socket.sendall(struct.pack(">i", out.tell()) + out.getvalue())

    def receive(self, key: int, version: int) -> Any:
        response: Any = load_response_schema(key, version)
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(size)
        start = 5 if response.__flexible__ else 4
        entity, used = entity_reader(response)(memoryview(answer), start)
        assert start + used == size, "bytes follow the answer"
        return entity

    def topic(self, **configs: str) -> str:
        """A new topic; `_` in a config's name is a dot."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        topic, config = (
            _entity(19, 7, each) for each in ("CreatableTopic", "CreatableTopicConfig")
        )
        wanted = topic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                config(name=key.replace("_", "."), value=value) for key, value in configs.items()
            ),
        )
        fields = {"timeout": timedelta(seconds=9), "validate_only": False}
        answer = self.ask(19, 7, topics=(wanted,), **fields)
        assert answer.topics[0].error_code == 0, answer
        deadline = time.monotonic() + 100
        while self.describe(2, name).error_code != 0:
            assert time.monotonic() < deadline
        return name

    def describe(
        self, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True, **more: Any
    ) -> Any:
        """The result for one resource."""
        resource = _entity(32, version, "DescribeConfigsResource")(
            resource_type=kind, resource_name=name, configuration_keys=keys or None
        )
        if version >= 3:
            more.setdefault("include_documentation", False)
        answer = self.ask(32, version, resources=(resource,), include_synonyms=synonyms, **more)
        return answer.results[0]

    def incremental(
        self,
        kind: int,
        name: str,
        *operations: tuple[str, int, str | None],
        validate_only: bool = False,
        version: int = 1,
    ) -> tuple[int, str | None]:
        """The code and the sentence for one resource."""
        config = _entity(44, version, "AlterableConfig")
        resource = _entity(44, version, "AlterConfigsResource")(
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                config(name=each, config_operation=verb, value=value)
                for each, verb, value in operations
            ),
        )
        answer = self.ask(44, version, resources=(resource,), validate_only=validate_only)
        return _outcome(answer, kind, name)

    def replace(
        self,
        kind: int,
        name: str,
        *configs: tuple[str, str | None],
        validate_only: bool = False,
        version: int = 2,
    ) -> tuple[int, str | None]:
        """AlterConfigs: the code and the sentence for one resource."""
        config = _entity(33, version, "AlterableConfig")
        resource = _entity(33, version, "AlterConfigsResource")(
            resource_type=kind,
            resource_name=name,
            configs=tuple(config(name=each, value=value) for each, value in configs),
        )
        answer = self.ask(33, version, resources=(resource,), validate_only=validate_only)
        return _outcome(answer, kind, name)

    def shows(self, kind: int, name: str, key: str, value: str | None, source: int) -> list[Any]:
        """Wait until a config has this value from this source (Kafka's brokers learn of a change a
        little later); its synonyms."""
        deadline = time.monotonic() + 100
        while True:
            configs = self.describe(kind, name, key).configs
            if [(each.value, each.config_source) for each in configs] == [(value, source)]:
                return [(each.name, each.value, each.source) for each in configs[0].synonyms]
            assert time.monotonic() < deadline, configs
            time.sleep(0.01)  # between two questions


def _entity(key: int, version: int, name: str) -> Any:
    return getattr(sys.modules[load_request_schema(key, version).__module__], name)


def _outcome(answer: Any, kind: int, name: str) -> tuple[int, str | None]:
    (response,) = answer.responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return int(response.error_code), response.error_message


@contextlib.contextmanager
def headwater(data: Path, settings: Mapping[str, object] | None = None) -> Iterator[Node]:
    """A broker in a thread of this process, so that its loggers are ours too."""
    started: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with Broker(data, "127.0.0.1:0", settings) as broker:
            started.set_result((broker.bootstrap, lambda: loop.call_soon_threadsafe(stopped.set)))
            await stopped.wait()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, serve())
        wait([started, running], return_when=FIRST_COMPLETED)
        if running.done():
            running.result()
        bootstrap, stop = started.result()
        try:
            with contextlib.closing(Node(bootstrap)) as node:
                yield node
        finally:
            stop()
            running.result()


@pytest.fixture(autouse=True)
def _strict_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "STRICT", True)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Node]:
    with headwater(tmp_path) as node:
        yield node


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., AbstractContextManager[Node]]:
    """Start a headwater with these settings; again and again on the same data."""
    return lambda settings=None: headwater(tmp_path, settings)


@pytest.fixture(scope="session")
def _kafka_server(request: pytest.FixtureRequest) -> Iterator[str]:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # fetching jars takes a while: let it be seen
            server = apache_kafka(jvm=QUICK_JVM)
            running = server.__enter__()
    except MissingServer as missing:
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            raise
        pytest.skip(f"NOT COMPARED WITH APACHE KAFKA: {missing}")
    yield running.bootstrap
    server.__exit__(None, None, None)


@pytest.fixture
def kafka(_kafka_server: str) -> Iterator[Node]:
    node = Node(_kafka_server)
    yield node
    node.close()


@pytest.fixture(params=["headwater", "kafka"])
def node(request: pytest.FixtureRequest) -> Node:
    return request.getfixturevalue("ours" if request.param == "headwater" else "kafka")
