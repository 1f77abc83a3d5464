"""POST /topics/{topic} as Confluent's REST proxy v2 and Redpanda's HTTP proxy have it, by its content type.

    Content-Type: application/vnd.kafka.json.v2+json        key and value are stored as they were sent
                  application/vnd.kafka.binary.v2+json      they are base64; also without a format

    {"records": [{"key": "a", "value": {"total": 12.50}, "partition": 0}]}
    {"offsets": [{"partition": 0, "offset": 17, "error_code": null, "error": null}], …}

A body that is no good stores nothing. What the log refuses of it is said of that record, and the others are
stored. Called in front of `http_in`, whose route it is: else such a body would be one record as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import BrokerUnreachable
from headwater.client.namespace import is_ours_to_write
from headwater.client.publisher import Draft, Stored
from headwater.edges import bodies, counts, request_body
from headwater.edges.answer_body import Pieces
from headwater.edges.context import Context
from headwater.edges.errors import Forbidden, Overloaded
from headwater.edges.fast_path import Handler
from headwater.edges.rest.answers import V2, Json, RestError, is_v2, object_of, refusal
from headwater.edges.rest.formats import (
    BAD_JSON,
    BAD_RECORD,
    RECORDS_MAX,
    SPACE,
    Bad,
    Produced,
    Wrong,
    bytes_of,
    partition_of,
    pieces,
)
from headwater.edges.rest.records import RECORD_BYTES, WAY, Producing
from headwater.errors import HeadwaterError

FORMATS = ("json", "binary")
_KIND = re.compile(r"application/vnd\.kafka(?:\.(json|binary))?\.v[12]\+json")
_FOR_GOOD, _FOR_NOW = 1, 2
"""As Confluent's proxy has it: whether the same record sent again would fare better."""
_NOT_SAID = ("idempotency-key", "headwater-key")
_ONE: Json = {
    "type": "object",
    "properties": {
        "key": {},
        "value": {},
        "partition": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
    },
    "additionalProperties": False,
}
BODY: Json = object_of(records={"type": "array", "minItems": 1, "items": _ONE})
_NUMBER: Json = {"type": ["integer", "null"]}
_OUTCOME = object_of(
    partition=_NUMBER, offset=_NUMBER, error_code=_NUMBER, error={"type": ["string", "null"]}
)
ANSWER: Json = object_of(offsets={"type": "array", "items": _OUTCOME})


class _Body(msgspec.Struct):
    records: msgspec.Raw


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")
    partition: int | None = None


def in_front(context: Context, handler: Handler) -> Handler:
    """The handler of POST /topics/{topic}, for all that is none of ours."""
    producing = _ProducingV2(context)

    async def handle(request: Request, topic: str) -> Response:
        if not is_v2(request.scope):
            return await handler(request, topic)
        try:
            return await producing.answer(request, topic)
        except RestError as error:
            counts.refused(WAY, "request")
            return await refusal(request, error)
        except HeadwaterError as error:
            counts.refused(WAY, type(error).__name__.lower())
            raise

    return handle


class _ProducingV2:
    """From a body to what became of each record."""

    def __init__(self, context: Context) -> None:
        self._context, self._producing = context, Producing(context)

    async def answer(self, request: Request, topic: str) -> Response:
        if is_ours_to_write(topic):
            raise Forbidden(f"{topic} is the log's own", hint="other clients may, by their rights")
        format = _format(request)
        limits = self._context.edges.limits
        await self._context.appender.topics.find(topic)  # before it is taken apart for nothing
        body = await bodies.read(request, limits.body_bytes)
        now_ms = time.time_ns() // 1_000_000
        found = await self._producing.taken_apart(topic, body, lambda: read(body, format, now_ms))
        good = [_good(number, each) for number, each in enumerate(found)]
        request_body.of(request.scope).take(RECORD_BYTES * len(good))
        stored = await self._context.appender.append_each(topic, [each.draft for each in good])
        counts.arrived(WAY, topic, sum(isinstance(each, Stored) for each in stored), len(body))
        said = await self._context.parsers.run(lambda: _told(good, stored))
        return Pieces(said, V2, limits.slow_seconds)


def _format(request: Request) -> str:
    """Raises RestError for a request that says what this form does not have."""
    if request.scope["query_string"]:
        raise RestError(400, "this content type has no parameters: a record says its key itself")
    for name in _NOT_SAID:
        if name in request.headers:
            raise RestError(400, f"{name} is not for this content type: see POST /topics as JSON")
    kind = request.headers["content-type"].partition(";")[0].strip().lower()
    found = _KIND.fullmatch(kind)
    if found is None:
        raise RestError(
            415, f"{kind[:100]!r} is not taken: encode records, and send them in the format binary"
        )
    return found[1] or "binary"


def _good(number: int, found: Produced | Bad) -> Produced:
    if isinstance(found, Bad):
        raise RestError(found.code, f"record {number}, and so nothing is stored: {found.reason}")
    return found


def read(body: bytes, format: str, now_ms: int) -> Iterator[Produced | Bad]:
    """In order. Raises RestError for what has no records."""
    try:
        raw = bytes(msgspec.json.decode(body, type=_Body).records)
    except msgspec.ValidationError as error:
        raise RestError(422, f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RestError(BAD_JSON, f"the body is no JSON: {error}") from None
    if raw[:1] != b"[" or not raw[1:-1].strip():
        raise RestError(422, "records is a list of at least one record")
    as_bytes = _AS_BYTES[format]
    for number, text in enumerate(pieces(raw[1:-1], SPACE + ",")):
        if number == RECORDS_MAX:
            text = Bad(BAD_RECORD, f"a request has at most {RECORDS_MAX} records: send another")
        found = text if isinstance(text, Bad) else _one(text, as_bytes, now_ms)
        yield found
        if isinstance(found, Bad):
            return


def _one(text: str, as_bytes: Callable[[str, msgspec.Raw], bytes], now_ms: int) -> Produced | Bad:
    try:
        sent = msgspec.json.decode(text, type=_Sent)
        key, value = (
            None if bytes(each) == b"null" else as_bytes(what, each)
            for what, each in (("key", sent.key), ("value", sent.value))
        )
        draft = Draft(key, value, (), partition_of(sent.partition), now_ms)
    except Wrong as error:
        return Bad(BAD_RECORD, str(error))
    except msgspec.ValidationError as error:
        return Bad(BAD_RECORD, f"it does not fit: {error}")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Bad(BAD_JSON, f"it is no JSON: {error}")
    return Produced(draft, None, None)


_AS_BYTES: dict[str, Callable[[str, msgspec.Raw], bytes]] = {
    "json": lambda _what, given: bytes(given),
    "binary": lambda what, given: bytes_of(what, given, "BINARY"),
}


def _told(sent: Sequence[Produced], stored: Sequence[Stored | HeadwaterError]) -> bytes:
    outcomes = [_outcome(each, found) for each, found in zip(sent, stored, strict=True)]
    return orjson.dumps({"key_schema_id": None, "value_schema_id": None, "offsets": outcomes})


def _outcome(sent: Produced, found: Stored | HeadwaterError) -> Json:
    if isinstance(found, Stored):
        where = {"partition": found.partition, "offset": found.offset}
        return {**where, "error_code": None, "error": None}
    counts.refused(WAY, "record")
    is_passing = isinstance(found, BrokerUnreachable | Overloaded)
    code = _FOR_NOW if is_passing else _FOR_GOOD
    return {
        "partition": sent.draft.partition,
        "offset": None,
        "error_code": code,
        "error": str(found),
    }
