"""The records of `_schemas`, as Confluent's registry writes them: JSON, with these keys; pure.

    {"keytype":"SCHEMA","subject":s,"version":1,"magic":1}  {"subject","version","id","schemaType"?,
                                                            "references"?,"schema","deleted"}; none: gone
    {"keytype":"CONFIG","subject":s or null,"magic":0}      {"subject","compatibilityLevel",…}
    {"keytype":"MODE","subject":s or null,"magic":0}        {"subject","mode"}
    {"keytype":"DELETE_SUBJECT","subject":s,"magic":0}      {"subject","version"}: all up to this one
    {"keytype":"CLEAR_SUBJECT","subject":s,"magic":0}       {"subject"}
    {"keytype":"NOOP","magic":0}                            none
    {"keytype":"NOOP","subject":":.:","magic":0}            ours: {"ids":{".":17}}, of this context

Order and names of a key's fields must be these: compaction compares keys as bytes, also with those that
another registry has written. The value of NOOP is looked at by nobody else; ours says up to which id a
context has given them, as the records of schemas that were deleted for good, with their ids, are gone after
compaction. (Without a subject, `ids` may name several contexts.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeGuard

from headwater.schemas import ids
from headwater.schemas.model import AVRO, Reference, Schema

TOPIC = "_schemas"
SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"
BATCH_BYTES = 512 * 1024
"""A broker takes 1 MiB, with all that Kafka adds."""


class Record(NamedTuple):
    key: bytes
    value: bytes | None


class Version(NamedTuple):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False


class Fact(NamedTuple):
    """A record that was understood. `value` None: a tombstone."""

    kind: str
    subject: str | None
    version: int
    value: Mapping[str, object] | None


def schema_record(version: Version) -> Record:
    schema = version.schema
    value: dict[str, object] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
    }
    if schema.kind != AVRO:
        value["schemaType"] = schema.kind
    if schema.references:
        value["references"] = [each.as_json() for each in schema.references]
    if schema.metadata is not None:
        value["metadata"] = json.loads(schema.metadata)
    if schema.rules is not None:
        value["ruleSet"] = json.loads(schema.rules)
    value |= {"schema": schema.text, "deleted": version.is_deleted}
    return Record(_schema_key(version.subject, version.version), _json(value))


def schema_gone(subject: str, version: int) -> Record:
    return Record(_schema_key(subject, version), None)


def config_record(subject: str | None, config: Mapping[str, object] | None) -> Record:
    value = None if config is None else _json({"subject": subject, **config})
    return Record(_key(CONFIG, subject), value)


def mode_record(subject: str | None, mode: str | None) -> Record:
    value = None if mode is None else _json({"subject": subject, "mode": mode})
    return Record(_key(MODE, subject), value)


def subject_deleted(subject: str, up_to: int) -> Record:
    return Record(_key(DELETE_SUBJECT, subject), _json({"subject": subject, "version": up_to}))


def noop() -> Record:
    """Which says nothing: a mark in the log."""
    return Record(_json({"keytype": NOOP, "magic": 0}), None)


def ids_given(context: str, highest: int) -> Record:
    return Record(_key(NOOP, f":{context}:"), _json({"ids": {context: highest}}))


def id_gone(context: str, identity: int, guid: str) -> Record:
    """Of a schema that was deleted for good: data may name the id still, and mean that one."""
    value = {"gone": {"context": context, "id": identity, "guid": guid}}
    return Record(_key(NOOP, f":{context}:{identity}"), _json(value))


def batches(made: Iterable[Record]) -> Iterator[list[Record]]:
    """In parts of up to `BATCH_BYTES`; a single record may be larger."""
    part: list[Record] = []
    size = 0
    for record in made:
        size += len(record.key) + len(record.value or b"")
        if part and size > BATCH_BYTES:
            yield part
            part, size = [], len(record.key) + len(record.value or b"")
        part.append(record)
    if part:
        yield part


def decoded(key: bytes | None, value: bytes | None) -> Fact | None:
    """None: not a record of this format."""
    try:
        named = json.loads(key or b"")
        found = None if value is None else json.loads(value)
        kind = named["keytype"]
        subject, version = named.get("subject"), named.get("version", 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    good = isinstance(kind, str) and isinstance(subject, str | None) and is_number(version)
    if not good or not isinstance(found, dict | None):
        return None
    return Fact(kind, subject, version, found)


def version_of(fact: Fact) -> Version | None:
    """The version that a SCHEMA record tells of; None: it is none."""
    value = fact.value
    if value is None or fact.subject is None:
        return None
    identity, text, kind = value.get("id"), value.get("schema"), value.get("schemaType") or AVRO
    if not _is_given(identity) or not _is_given(fact.version):
        return None
    if not isinstance(text, str) or not isinstance(kind, str):
        return None
    schema = Schema(
        text,
        kind,
        references_of(value.get("references")) or (),
        _kept(value.get("metadata")),
        _kept(value.get("ruleSet")),
    )
    return Version(fact.subject, fact.version, identity, schema, bool(value.get("deleted")))


def references_of(value: object) -> tuple[Reference, ...] | None:
    """As they stand in a request or a record; None: they are none."""
    if value is None:
        return ()
    found = []
    for each in value if isinstance(value, list) else [None]:
        if not isinstance(each, dict):
            return None
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if (
            not isinstance(name, str)
            or not isinstance(subject, str)
            or not isinstance(version, int)
        ):
            return None
        found.append(Reference(name, subject, version))
    return tuple(found)


def ids_of(value: Mapping[str, object]) -> list[tuple[str, int]]:
    """What `ids_given` says."""
    found = value.get("ids")
    named = found.items() if isinstance(found, dict) else ()
    return [(context, highest) for context, highest in named if _is_given(highest)]


def gone_of(value: Mapping[str, object]) -> dict[tuple[str, int], str]:
    """What `id_gone` says."""
    found = value.get("gone")
    named = found if isinstance(found, dict) else {}
    context, identity, guid = named.get("context"), named.get("id"), named.get("guid")
    if not isinstance(context, str) or not is_number(identity) or not isinstance(guid, str):
        return {}
    return {(context, identity): guid}


def is_number(value: object) -> TypeGuard[int]:
    """And not true, which Python would take for one."""
    return type(value) is int


def _is_given(value: object) -> TypeGuard[int]:
    """Whether a registry can have given it, as an id or a version: serializers have four bytes for an id."""
    return is_number(value) and 0 < value <= ids.ID_MAX


def _kept(value: object) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)


def _schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def _key(kind: str, subject: str | None) -> bytes:
    return _json({"keytype": kind, "subject": subject, "magic": 0})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
