"""Two nodes that answer the config APIs: headwater's handlers, and a real Apache Kafka.

A test that takes `node` runs against both and must find the same; `ours` is headwater alone. Every
request travels as bytes in the version it names, so the wire forms are tested along the way.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import struct
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headwater.broker import wire
from headwater.broker.api import (
    k32_describe_configs,
    k33_alter_configs,
    k44_incremental_alter_configs,
)
from headwater.broker.catalogue import Topic
from headwater.broker.registry import Context
from headwater.broker.settings import Settings
from headwater.testing.apache_kafka import MissingServer, apache_kafka

HANDLERS = {
    api.key: api
    for api in (k32_describe_configs.API, k33_alter_configs.API, k44_incremental_alter_configs.API)
}


class Node:
    """Something that answers requests; subclasses carry the bytes."""

    def exchange(self, frame: bytes) -> bytes:
        raise NotImplementedError

    def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        raise NotImplementedError

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        request: Any = load_request_schema(key, version)
        response: Any = load_response_schema(key, version)
        out = io.BytesIO()
        out.write(struct.pack(">hhih", key, version, 7, 4) + b"test")
        out.write(b"\0" if request.__flexible__ else b"")
        entity_writer(request)(out, request(**fields))
        answer = self.exchange(out.getvalue())
        start = 5 if response.__flexible__ else 4
        entity, size = entity_reader(response)(memoryview(answer), start)
        assert start + size == len(answer), "bytes follow the answer"
        return entity

    def topic(self, **configs: str) -> str:
        """A new topic; `_` in a config's name is a dot."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.create_topic(name, {key.replace("_", "."): value for key, value in configs.items()})
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
        deadline = time.monotonic() + 10
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


class HandlersOnly(Node):
    """headwater's three handlers over a catalogue in memory: no sockets, no disk."""

    node_id = 1

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.catalogue = self
        self.topics: dict[str, Topic] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}

    async def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        await asyncio.sleep(0)  # the disk: others get their turn
        topic = self.topics[name]
        self.topics[name] = Topic(name, topic.id, topic.partitions, dict(configs))

    async def set_broker_configs(self, node: str, configs: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        self.broker_configs[node] = dict(configs)
        self.settings.set_dynamic(node, configs)

    def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        self.topics[name] = Topic(name, uuid.uuid4(), 1, dict(configs))

    def exchange(self, frame: bytes) -> bytes:
        return asyncio.run(self.answer(frame))

    async def answer(self, frame: bytes) -> bytes:
        header = wire.read_header(frame)
        api = HANDLERS[header.api_key]
        assert api.supports(header.api_version)
        context = Context(header.api_version, header.client_id, "127.0.0.1")
        body: Any = api.handle(self, wire.decode(frame, header), context)  # type: ignore[arg-type]
        if asyncio.iscoroutine(body):
            body = await body
        answer = wire.encode(header.api_key, header.api_version, header.correlation_id, body)
        return b"".join(answer)[4:]


class ApacheKafka(Node):
    """A real broker behind a socket."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def exchange(self, frame: bytes) -> bytes:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._answers.read(4))
        return self._answers.read(size)

    def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        topic, config = (
            _entity(19, 7, each) for each in ("CreatableTopic", "CreatableTopicConfig")
        )
        wanted = topic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(config(name=key, value=value) for key, value in configs.items()),
        )
        fields = {"timeout": timedelta(seconds=9), "validate_only": False}
        answer = self.ask(19, 7, topics=(wanted,), **fields)
        assert answer.topics[0].error_code == 0, answer
        deadline = time.monotonic() + 10
        while self.describe(2, name).error_code != 0:
            assert time.monotonic() < deadline


@pytest.fixture(autouse=True)
def _strict_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "STRICT", True)


@pytest.fixture
def ours() -> HandlersOnly:
    return HandlersOnly(Settings())


@pytest.fixture(scope="session")
def _kafka_server(request: pytest.FixtureRequest) -> Iterator[str]:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # fetching jars takes a while: let it be seen
            server = apache_kafka()
            running = server.__enter__()
    except MissingServer as missing:
        if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
            raise
        pytest.skip(f"NOT COMPARED WITH APACHE KAFKA: {missing}")
    yield running.bootstrap
    server.__exit__(None, None, None)


@pytest.fixture
def kafka(_kafka_server: str) -> Iterator[ApacheKafka]:
    node = ApacheKafka(_kafka_server)
    yield node
    node.close()


@pytest.fixture(params=["headwater", "kafka"])
def node(request: pytest.FixtureRequest) -> Node:
    return request.getfixturevalue("ours" if request.param == "headwater" else "kafka")
