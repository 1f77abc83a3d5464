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
from headwater.edges.schemas import Schema

NDJSON = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
)
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
BINARY = "application/octet-stream"
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
class Parcel:
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


def parcel(ask: Ask, body: bytes, schema: Schema | None) -> Parcel:
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
        return Parcel([_keyed(ask, _checked(event, schema))])
    if cloud_events.is_json(kind):
        return Parcel([_of_json(ask, kind, body, schema)])
    if schema is not None or ask.key_field is not None:
        why = "this topic has a JSON Schema" if schema is not None else "key_field names a field"
        raise HTTPException(415, f"{why}, and {kind} is no JSON")
    own: Headers = [("content-type", ask.content_type.encode("latin-1", "replace"))]
    return Parcel([Draft(_key(ask), body, own + trace(ask))])


def trace(ask: Ask) -> Headers:
    """The sender's trace, so that it goes on with the record."""
    parent = ask.headers.get("traceparent", "")
    if not _TRACEPARENT.fullmatch(parent):
        return []
    kept: Headers = [("traceparent", parent.encode("latin-1"))]
    if "tracestate" in ask.headers:
        kept.append(("tracestate", ask.headers["tracestate"].encode("latin-1", "replace")))
    return kept


def _of_json(ask: Ask, kind: str, body: bytes, schema: Schema | None) -> Draft:
    wrong = ndjson.complaint(body)
    if wrong is not None:
        raise BadRequest(f"the body is no JSON: {wrong}")
    key = _key(ask)
    if schema is not None or ask.key_field is not None:
        meant, failed = ndjson.objects([body])
        if failed:
            raise BadRequest(f"the body is no JSON that can be checked: {failed[0]}")
        if schema is not None:
            _check(schema, meant[0])
        if ask.key_field is not None:
            (key,), failed = ndjson.keys(meant, ask.key_field)
            if failed:
                raise Invalid(failed[0])
    # Plain JSON is what values are; anything more particular is worth a header.
    own: Headers = (
        [] if kind == "application/json" else [("content-type", _bytes(ask.content_type))]
    )
    return Draft(key, body, own + trace(ask))


def _of_lines(ask: Ask, body: bytes, schema: Schema | None) -> Parcel:
    lines = ndjson.read(body)
    keys: Sequence[bytes | None] | None = None
    if schema is not None or ask.key_field is not None:
        meant, failed = ndjson.objects(lines.values)
        if schema is not None:
            failed = {**schema.complaints(meant), **failed}
        if ask.key_field is not None:
            keys, without = ndjson.keys(meant, ask.key_field)
            failed = {**without, **failed}
            keys = [key for index, key in enumerate(keys) if index not in failed]
        lines = lines.without(failed)
    if keys is None and ask.key is not None:
        keys = [_key(ask)] * len(lines.values)
    found = Parcel((), True, lines.values, keys, lines.bad)
    headers = trace(ask)
    if not headers:
        return found
    drafts = [replace(draft, headers=headers) for draft in found.as_drafts()]
    return Parcel(drafts, True, bad=lines.bad)


def _of_events(ask: Ask, kind: str, body: bytes, schema: Schema | None) -> Parcel:
    if ask.key_field is not None:
        raise BadRequest("a CloudEvent's key is its partitionkey", hint="leave key_field out")
    if kind == cloud_events.BATCHED:
        events = cloud_events.batched(body)
        drafts = [_keyed(ask, _checked(event, schema)) for event in events]
        return Parcel(drafts, True)
    if kind == cloud_events.STRUCTURED:
        event = cloud_events.structured(body, ask.content_type)
        return Parcel([_keyed(ask, _checked(event, schema))])
    raise HTTPException(415, f"CloudEvents are taken as JSON, and {kind} is another form")


def _checked(event: cloud_events.Event, schema: Schema | None) -> Draft:
    if schema is not None:
        if not event.has_json:
            raise Invalid("this topic has a JSON Schema, and the event has no JSON data")
        _check(schema, event.data)
    return event.draft


def _keyed(ask: Ask, draft: Draft) -> Draft:
    """`?key=` is stronger than what the event says."""
    key = _key(ask) if ask.key is not None else draft.key
    return replace(draft, key=key, headers=[*draft.headers, *trace(ask)])


def _check(schema: Schema, meant: Any) -> None:
    wrong = schema.complaint(meant)
    if wrong is not None:
        raise Invalid(wrong, hint="it does not fit the topic's JSON Schema")


def _key(ask: Ask) -> bytes | None:
    return None if ask.key is None else ask.key.encode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")
