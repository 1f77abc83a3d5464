"""What a client pushed: names and numbers out of an OpenTelemetry message. Pure; any bytes parse or raise.

Of the message (protobuf, OTLP v1 MetricsData) only this is read, everything else is stepped over:

    MetricsData      1 ResourceMetrics*          Metric       1 name, 5 gauge, 7 sum, 9 histogram
    ResourceMetrics  2 ScopeMetrics*             Gauge, Sum   1 NumberDataPoint*
    ScopeMetrics     2 Metric*                   Number…Point 4 double, 6 sfixed64
                                                 Histogram    1 point*: 4 count fixed64, 5 sum double
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

METRICS_MAX = 10_000
_F64, _I64, _U64 = struct.Struct("<d"), struct.Struct("<q"), struct.Struct("<Q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadMetrics(ValueError):
    """Bytes that are no such message."""


def measurements(data: bytes) -> dict[str, float]:
    """The last number of each metric, by name (of a histogram: its sum)."""
    found: dict[str, float] = {}
    for resource in _messages(data, 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                name, value = _metric(metric)
                found[name] = value
                if len(found) > METRICS_MAX:
                    raise BadMetrics(f"more than {METRICS_MAX} metrics")
    return found


def _metric(data: bytes) -> tuple[str, float]:
    name, value = "", 0.0
    for number, kind, content in _fields(data):
        if number == 1 and kind == _BYTES:
            try:
                name = content.decode()
            except UnicodeDecodeError:
                raise BadMetrics("a name is not UTF-8") from None
        elif number in (5, 7, 9) and kind == _BYTES:
            for point in _messages(content, 1):
                value = _number(point, histogram=number == 9)
    return name, value


def _number(point: bytes, histogram: bool) -> float:
    for number, kind, content in _fields(point):
        if kind != _FIXED64:
            continue
        if number == (5 if histogram else 4):
            return float(_F64.unpack(content)[0])
        if number == 6 and not histogram:
            return float(_I64.unpack(content)[0])
    return 0.0


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, kind, content in _fields(data):
        if number == wanted and kind == _BYTES:
            yield content


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(number, wire type, content) of each field."""
    position, end = 0, len(data)
    while position < end:
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
