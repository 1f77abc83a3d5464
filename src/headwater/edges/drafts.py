"""A request's body as records to be: what its content type means, its keys, its headers, its schema; pure.

Called by `http_in`.

    application/json, …+json      one record: the value as it was sent
    application/x-ndjson          one record for each line
    application/cloudevents…      see `cloud_events`; also where there are ce- headers
    anything else                 one record: the bytes, with the content type as a header
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.exceptions import HTTPException

from headwater.client.errors import BadRequest
from headwater.client.publisher import Draft
from headwater.edges import cloud_events, ndjson
from headwater.edges.errors import Invalid
from headwater.edges.schemas import Schema, Subject

NDJSON = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
)
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
BINARY = "application/octet-stream"
REPEATED_BYTES_MAX = 128 * 1024**2
SINGLE_RECORDS_MAX = 100_000
"""Of one request, where each record is handled by itself, for its key or its trace: others wait for it."""
LINES_MAX = 500_000  # empty ones and all: a line of two bytes takes a hundred in memory
_KIND = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*")

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Ask:
    """What a request says beside its body. `headers`: names in lower case."""

    headers: Mapping[str, str]
    key: str | None = None
    key_field: str | None = None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").strip() or BINARY

    @property
    def kind(self) -> str:
        return self.content_type.partition(";")[0].strip().lower()

    def digest(self, body: bytes) -> str:
        """Of all that decides which records are made, but for the trace: a retry is a trace of its own."""
        said = hashlib.blake2b(digest_size=16)
        events = sorted(each for each in self.headers.items() if each[0].startswith("ce-"))
        for text in (self.content_type, repr(self.key), repr(self.key_field), repr(events)):
            said.update(text.encode("utf-8", "surrogateescape") + b"\0")
        said.update(body)
        return said.hexdigest()


@dataclass(frozen=True)
class Drafts:
    """Records to be: drafts, or, many and without headers, bare values. `bad`: lines that are no good."""

    drafts: Sequence[Draft] = ()
    is_bulk: bool = False
    values: Sequence[bytes] = ()
    keys: Sequence[bytes | None] | None = None
    """Of the values; None: no value has one."""
    bad: Sequence[ndjson.Bad] = ()

    def __len__(self) -> int:
        return len(self.drafts) or len(self.values)

    def as_drafts(self) -> Sequence[Draft]:
        if self.keys is None:
            return self.drafts or [Draft(None, value) for value in self.values]
        return [Draft(key, value) for key, value in zip(self.keys, self.values, strict=True)]


def drafts_of(ask: Ask, body: bytes, schema: Schema | Subject | None) -> Drafts:
    """As the topic has them. Raises as `_understood` does."""
    what = _understood(ask, body, schema)
    if schema is None or not schema.is_stored_otherwise:
        return what
    drafts = [_with_schema(each, schema) for each in what.drafts]
    values = [schema.stored(each) or b"" for each in what.values]
    return replace(what, drafts=drafts, values=values)


def _with_schema(draft: Draft, schema: Schema | Subject) -> Draft:
    """As the topic has it; a CloudEvent says where its schema is, unless its sender has."""
    names = [name for name, _ in draft.headers]
    headers, where = list(draft.headers), schema.address()
    if "ce_id" in names and "ce_dataschema" not in names and where is not None:
        headers.append(("ce_dataschema", where.encode()))
    return replace(draft, value=schema.stored(draft.value), headers=headers)


def _understood(ask: Ask, body: bytes, schema: Schema | Subject | None) -> Drafts:
    """Raises Misunderstood (400), Invalid (422: the schema) or 415 for a body that is no good as a whole."""
    kind = ask.kind
    if not _KIND.fullmatch(kind):
        raise HTTPException(415, f"{ask.content_type[:100]!r} is no content type")
    if kind in FORMS:
        raise HTTPException(
            415, f"{kind} is for forms: say what it is, as in Content-Type: application/json"
        )
    if ask.key is not None and ask.key_field is not None:
        raise BadRequest("a record has one key", hint="give key or key_field, not both")
    if kind in NDJSON:
        return _of_lines(ask, body, schema)
    if kind.startswith(cloud_events.PREFIX):
        return _of_events(ask, kind, body, schema)
    if cloud_events.is_binary(ask.headers):
        sent = ask.content_type if "content-type" in ask.headers else None
        event = cloud_events.binary(ask.headers.items(), body, sent)
        return Drafts([_keyed(ask, _checked(event, schema))])
    if cloud_events.is_json(kind):
        return Drafts([_of_json(ask, kind, body, schema)])
    if schema is not None or ask.key_field is not None:
        why = "this topic has a schema" if schema is not None else "key_field names a field"
        raise HTTPException(415, f"{why}, and {kind} is no JSON")
    own: Headers = [("content-type", ask.content_type.encode("latin-1", "replace"))]
    return Drafts([Draft(_key(ask), body, own + trace(ask))])


def trace(ask: Ask) -> Headers:
    """The sender's trace, so that it goes on with the record."""
    parent = ask.headers.get("traceparent", "")
    if not _TRACEPARENT.fullmatch(parent):
        return []
    kept: Headers = [("traceparent", parent.encode("latin-1"))]
    if "tracestate" in ask.headers:
        kept.append(("tracestate", ask.headers["tracestate"].encode("latin-1", "replace")))
    return kept


def _of_json(ask: Ask, kind: str, body: bytes, schema: Schema | Subject | None) -> Draft:
    wrong = ndjson.complaint(body)
    if wrong is not None:
        raise BadRequest(f"the body is no JSON: {wrong}")
    key = _key(ask)
    if schema is not None:
        meant, failed = ndjson.objects([body])
        if failed:
            raise BadRequest(f"the body is no JSON that can be checked: {failed[0]}")
        _check(schema, meant[0], body)
    if ask.key_field is not None:
        (key,), failed = ndjson.keys([body], ask.key_field)
        if failed:
            raise Invalid(failed[0])
    # Plain JSON is what values are; anything more particular is worth a header.
    own: Headers = (
        [] if kind == "application/json" else [("content-type", _bytes(ask.content_type))]
    )
    return Draft(key, body, own + trace(ask))


def _of_lines(ask: Ask, body: bytes, schema: Schema | Subject | None) -> Drafts:
    if body.count(b"\n") > LINES_MAX:
        raise HTTPException(413, f"the body has more than {LINES_MAX} lines; send fewer at once")
    lines = ndjson.read(body)
    keys: Sequence[bytes | None] | None = None
    failed = {} if schema is None else ndjson.complaints(lines.values, schema.complaints)
    if ask.key_field is not None:
        keys, without = ndjson.keys(lines.values, ask.key_field)
        failed = {**without, **failed}
        keys = [key for index, key in enumerate(keys) if index not in failed]
    lines = lines.without(failed)
    headers = trace(ask)
    _check_repeated(ask, headers, len(lines.values))
    if keys is not None or ask.key is not None or headers:
        check_single(len(lines.values), "records with keys or a trace")
    if keys is None and ask.key is not None:
        keys = [_key(ask)] * len(lines.values)
    found = Drafts((), True, lines.values, keys, lines.bad)
    if not headers:
        return found
    drafts = [replace(draft, headers=headers) for draft in found.as_drafts()]
    return Drafts(drafts, True, bad=lines.bad)


def check_single(count: int, what: str) -> None:
    """Raises 413."""
    said = f"{count} {what} are more than {SINGLE_RECORDS_MAX}; send fewer at once"
    if count > SINGLE_RECORDS_MAX:
        raise HTTPException(413, said)


def _check_repeated(ask: Ask, headers: Headers, count: int) -> None:
    """The key and the trace are said once, and stored with each record: what they come to is bounded."""
    each = len(ask.key or "") + sum(len(value or b"") for _, value in headers)
    said = f"a key and a trace of {each} bytes for each of {count} records are too much"
    if each * count > REPEATED_BYTES_MAX:
        raise HTTPException(413, f"{said}; send fewer at once")


def _of_events(ask: Ask, kind: str, body: bytes, schema: Schema | Subject | None) -> Drafts:
    if ask.key_field is not None:
        raise BadRequest("a CloudEvent's key is its partitionkey", hint="leave key_field out")
    if kind == cloud_events.BATCHED:
        check_single(cloud_events.count(body), "events")
        parts = cloud_events.parts(body)
        _check_repeated(ask, [], len(parts))
        drafts = [
            _keyed(ask, _checked(_alone(event, schema), schema))
            for event in cloud_events.batched(parts)
        ]
        return Drafts(drafts, True)
    if kind == cloud_events.STRUCTURED:
        event = cloud_events.structured(body, ask.content_type)
        return Drafts([_keyed(ask, _checked(_alone(event, schema), schema))])
    raise HTTPException(415, f"CloudEvents are taken as JSON, and {kind} is another form")


def _alone(event: cloud_events.Event, schema: Schema | Subject | None) -> cloud_events.Event:
    """A topic whose values a serializer reads has an event's data, and its attributes in headers."""
    by_subject = schema is not None and schema.is_stored_otherwise
    return cloud_events.as_binary(event) if by_subject else event


def _checked(event: cloud_events.Event, schema: Schema | Subject | None) -> Draft:
    if schema is not None:
        if not event.has_json:
            raise Invalid("this topic has a schema, and the event has no JSON data")
        _check(schema, event.data, event.draft.value)
    return event.draft


def _keyed(ask: Ask, draft: Draft) -> Draft:
    """`?key=` is stronger than what the event says."""
    key = _key(ask) if ask.key is not None else draft.key
    return replace(draft, key=key, headers=[*draft.headers, *trace(ask)])


def _check(schema: Schema | Subject, meant: Any, text: bytes | None) -> None:
    wrong = schema.complaint(meant, text)
    if wrong is not None:
        raise Invalid(wrong, hint="it does not fit the topic's schema")


def _key(ask: Ask) -> bytes | None:
    return None if ask.key is None else ask.key.encode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")
