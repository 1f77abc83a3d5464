"""Tells clients what to push, takes what they push, and appends it to a topic that anybody may read.

One record for each push in `__client_metrics`, made at the first one: the key is the client's instance id,
the value JSON with who it was and the numbers. Who is quicker than his subscription says is refused,
and one push is stored after the other. State per client is a time and a number, for `CLIENTS_MAX` at most.

Also here: names and numbers out of an OpenTelemetry message. Pure; any bytes parse or raise. Of the message
(protobuf, OTLP v1 MetricsData) only this is read, everything else is stepped over:

    MetricsData      1 ResourceMetrics*          Metric       1 name, 5 gauge, 7 sum, 9 histogram
    ResourceMetrics  2 ScopeMetrics*             Gauge, Sum   1 NumberDataPoint*
    ScopeMetrics     2 Metric*                   Number…Point 4 double, 6 sfixed64
                                                 Histogram    1 point*: 4 count fixed64, 5 sum double
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import struct
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.catalogue import Catalogue
from headwater.broker.clock import Clock
from headwater.broker.disk_space import DiskSpace
from headwater.broker.internal_topic import InternalTopic
from headwater.broker.registry import Context
from headwater.broker.settings import Settings
from headwater.broker.telemetry import subscriptions
from headwater.broker.telemetry.subscriptions import Wanted
from headwater.broker.topics import Topics
from headwater.broker.validation import Validation
from headwater.log.partition import StorageFailed
from headwater.record import codecs
from headwater.record.errors import CorruptBatch

logger = logging.getLogger("headwater.broker.telemetry")

TOPIC = internal_topics.CLIENT_METRICS
CLIENTS_MAX = 10_000
ACCEPTED = (codecs.ZSTD, codecs.LZ4, codecs.GZIP, codecs.SNAPPY)


class _Client(NamedTuple):
    """When it last did what it may not do all the time."""

    asked: float
    pushed: float
    number: int
    terminated: bool = False


class Telemetry:
    """The metrics that clients push to this broker."""

    def __init__(
        self,
        catalogue: Catalogue,
        topics: Topics,
        settings: Settings,
        clock: Clock,
        validation: Validation,
        disk_space: DiskSpace,
    ) -> None:
        self._catalogue = catalogue
        self._topic = InternalTopic(TOPIC, topics, clock.now_ms)
        self._settings = settings
        self._clock = clock
        self._validation = validation
        self._disk_space = disk_space
        self._clients: dict[uuid.UUID, _Client] = {}
        self._storing = asyncio.Lock()  # until it is on disk: nobody counts what it becomes there
        self._subscriptions = subscriptions.read(catalogue.client_metrics)
        catalogue.on_client_metrics = self._changed

    def _changed(self) -> None:
        self._subscriptions = subscriptions.read(self._catalogue.client_metrics)

    @property
    def active(self) -> bool:
        """Whether anybody wants metrics at all."""
        return bool(self._subscriptions)

    def wanted(self, instance: uuid.UUID, context: Context) -> Wanted:
        software = getattr(context.connection, "software", ("", ""))
        client = {
            "client_instance_id": str(instance),
            "client_id": context.client_id,
            "client_software_name": software[0],
            "client_software_version": software[1],
            "client_source_address": context.client_host,
            "client_source_port": str(getattr(context.connection, "client_port", "")),
        }
        return subscriptions.wanted(self._subscriptions, client)

    def ask(self, instance: uuid.UUID, context: Context) -> tuple[ErrorCode, Wanted]:
        """What a client is to push from now on."""
        now, known = self._clock.monotonic(), self._clients.get(instance)
        wanted = self.wanted(instance, context)
        early = known is not None and now < known.asked + wanted.interval_ms / 1000 * 0.5
        if early and known is not None and known.number == wanted.number:
            return ErrorCode.throttling_quota_exceeded, wanted
        self._keep(instance, _Client(now, known.pushed if known else -1e9, wanted.number))
        return ErrorCode.none, wanted

    async def push(self, request: Any, context: Context) -> ErrorCode:
        """Take a push, or say what is wrong with it."""
        instance = request.client_instance_id
        if not instance:
            return ErrorCode.invalid_request
        now, wanted = self._clock.monotonic(), self.wanted(instance, context)
        known = self._clients.get(instance, _Client(now, -1e9, wanted.number))
        if known.terminated:
            return ErrorCode.invalid_request
        if request.subscription_id != wanted.number or not wanted.metrics:
            return ErrorCode.unknown_subscription_id
        if now < known.pushed + wanted.interval_ms / 1000 * 0.5 and not request.terminating:
            return ErrorCode.throttling_quota_exceeded
        if request.compression_type not in (codecs.NONE, *ACCEPTED):
            return ErrorCode.unsupported_compression_type
        if len(request.metrics) > (most := self._settings.get("telemetry.max.bytes")):
            return ErrorCode.telemetry_too_large
        if self._disk_space.refusing:
            return ErrorCode.kafka_storage_error
        self._keep(instance, _Client(known.asked, now, wanted.number, request.terminating))
        return await self._store(request, context, most)

    async def _store(self, request: Any, context: Context, most: int) -> ErrorCode:
        value = {
            "client_id": context.client_id,
            "client_host": context.client_host,
            "software": " ".join(getattr(context.connection, "software", ("", ""))),
            "terminating": request.terminating,
        }
        kind, data = request.compression_type, request.metrics
        try:
            async with self._storing:
                job = self._validation.run(
                    lambda: _line(value, codecs.decompress(kind, data, most))
                )
                if (line := await asyncio.wrap_future(job)) is not None:
                    await self._topic.ensure()
                    records = [(str(request.client_instance_id).encode(), line)]
                    await self._topic.stage(self._topic.partition(), records).durable()
        except (CorruptBatch, BadMetrics):
            return ErrorCode.invalid_record
        except (StorageFailed, OSError) as error:
            logger.warning("metrics of %s are lost: %s", context.client_id, error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _keep(self, instance: uuid.UUID, client: _Client) -> None:
        self._clients.pop(instance, None)
        while len(self._clients) >= CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]  # the one that was silent the longest
        self._clients[instance] = client


METRICS_MAX, FIELDS_MAX = 10_000, 50_000
"""Fields at every depth: a push of a megabyte has half a million where they are empty."""
_F64, _I64 = struct.Struct("<d"), struct.Struct("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadMetrics(ValueError):
    """Bytes that are no such message."""


def _line(value: dict[str, object], data: bytes) -> bytes | None:
    """The record of a push, if there is a number in it."""
    return json.dumps(value | {"metrics": it}).encode() if (it := measurements(data)) else None


def measurements(data: bytes) -> dict[str, float]:
    """The last number of each metric, by name (of a histogram: its sum)."""
    found: dict[str, float] = {}
    left = iter(range(FIELDS_MAX))
    for resource in _messages(data, 1, left):
        for scope in _messages(resource, 2, left):
            for metric in _messages(scope, 2, left):
                name, value = _metric(metric, left)
                if math.isfinite(value):  # else JSON has no word for it
                    found[name] = value
                if len(found) > METRICS_MAX:
                    raise BadMetrics(f"more than {METRICS_MAX} metrics")
    return found


def _metric(data: bytes, left: Iterator[int]) -> tuple[str, float]:
    name, value = "", 0.0
    for number, kind, content in _fields(data, left):
        if number == 1 and kind == _BYTES:
            try:
                name = content.decode()
            except UnicodeDecodeError:
                raise BadMetrics("a name is not UTF-8") from None
        elif number in (5, 7, 9) and kind == _BYTES:
            for point in _messages(content, 1, left):
                value = _number(point, left, histogram=number == 9)
    return name, value


def _number(point: bytes, left: Iterator[int], histogram: bool) -> float:
    for number, kind, content in _fields(point, left):
        if kind != _FIXED64:
            continue
        if number == (5 if histogram else 4):
            return float(_F64.unpack(content)[0])
        if number == 6 and not histogram:
            return float(_I64.unpack(content)[0])
    return 0.0


def _messages(data: bytes, wanted: int, left: Iterator[int]) -> Iterator[bytes]:
    for number, kind, content in _fields(data, left):
        if number == wanted and kind == _BYTES:
            yield content


def _fields(data: bytes, left: Iterator[int]) -> Iterator[tuple[int, int, bytes]]:
    """(number, wire type, content) of each field."""
    position, end = 0, len(data)
    while position < end:
        if next(left, None) is None:
            raise BadMetrics(f"more than {FIELDS_MAX} fields")
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            begin = position
            _, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            begin, position = position, position + (8 if kind == _FIXED64 else 4)
        elif kind == _BYTES:
            size, begin = _varint(data, position)
            position = begin + size
        else:
            raise BadMetrics(f"wire type {kind}")
        if position > end:
            raise BadMetrics("a field reaches beyond the end")
        yield tag >> 3, kind, data[begin:position]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise BadMetrics("it ends within a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise BadMetrics("a number of more than ten bytes")
