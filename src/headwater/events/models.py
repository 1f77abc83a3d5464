"""Classes of programs, and their values as JSON: pydantic models, which msgspec does not know by itself; what
of a value is equal, and whole; the fields that a class declares, and its JSON Schema."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from headwater.schemas.values.header import Json

_SIMPLE = frozenset((type(None), bool, int, float, str, bytes))
_NOT_ITS_OWN = ("__dict__", "__weakref__", "__pydantic_fields_set__")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def encode(value: Any) -> Any:
    """For msgspec's encoders."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def decode(kind: Any, value: Any) -> Any:
    """For msgspec's decoders."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind} cannot be read from JSON")


def same(found: Any, given: Any) -> bool:
    """Whether what is written of it came back as it was; also where a class has no equality of its own."""
    if found == given:
        return True
    if type(found) is not type(given):
        return False
    plain: bool = _plain(found) == _plain(given)
    return plain


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=lambda model: model.model_dump())


def whole(found: object, given: object) -> bool:
    """Whether all of it came back: also what a model keeps to itself or leaves out when it is written, and
    what its equality does not look at."""
    if isinstance(given, Mapping) and isinstance(found, Mapping):
        return found.keys() == given.keys() and _each(
            list(map(found.__getitem__, given)), list(given.values())
        )
    if isinstance(given, list | tuple) and isinstance(found, list | tuple):
        return type(found) is type(given) and _each(found, given)
    if isinstance(given, type | Enum) or not (has := attributes(given)):
        return found == given
    return type(found) is type(given) and whole(attributes(found), has)


def _each(found: Sequence[object], given: Sequence[object]) -> bool:
    if _SIMPLE.issuperset(map(type, given)):
        return found == given
    return len(found) == len(given) and all(map(whole, found, given))


# ---- the fields of classes ------------------------------------------------------------------------


def attributes(value: object) -> dict[str, object]:
    """Name → value, without those that a property has worked out and kept, and which of them were given."""
    found: dict[str, object] = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_mangled = name.startswith("__") and not name.endswith("__")
            name = f"_{kind.__name__.lstrip('_')}{name}" if is_mangled else name
            if name not in _NOT_ITS_OWN and hasattr(value, name):
                found[name] = getattr(value, name)
    kept = [each for each in found if _is_kept(getattr(type(value), each, None))]
    return {name: each for name, each in found.items() if name not in kept}


def _is_kept(attribute: object) -> bool:
    return isinstance(attribute, functools.cached_property)


def defaults(kind: type) -> Iterator[tuple[str, object]]:
    """Each field, with all that says what it is where no value is given for it."""
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            yield each.name, None if each.default is dataclasses.MISSING else each.default
            factory = each.default_factory
            yield each.name, None if factory is dataclasses.MISSING else factory
    elif issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        yield "struct", (kind.__struct_fields__, config.tag, config.tag_field, config.array_like)
        for one in msgspec.structs.fields(kind):
            yield one.name, (one.encode_name, one.default, one.default_factory)
    elif hasattr(kind, "model_fields"):
        for name, field in kind.model_fields.items():
            yield name, _ADDRESS.sub("", repr(field))
            yield name, (field.default_factory, field.metadata)
    elif issubclass(kind, Enum):
        yield "members", tuple((each.name, each.value) for each in kind)
    elif (fields := getattr(kind, "_fields", None)) is not None:
        yield "named", (tuple(fields), getattr(kind, "_field_defaults", {}))


# ---- classes as JSON Schema -----------------------------------------------------------------------


def schema_text(kind: type) -> str | None:
    """Of the data of an event: closed, as a class writes its fields and no others. None: it has none."""
    parts: dict[str, Json] = {}
    try:
        found = msgspec.json.schema(kind, schema_hook=lambda each: _of_model(each, kind, parts))
    except (TypeError, NotImplementedError):
        return None
    draft = "https://json-schema.org/draft/2020-12/schema"
    more = {"$defs": {**found.get("$defs", {}), **parts}} if parts else {}
    return json.dumps({"$schema": draft, **_closed({**found, **more})}, sort_keys=True)


def _of_model(kind: type, whole: type, parts: dict[str, Json]) -> Json:
    """A model's schema. Where it is not the whole, what it refers to goes to `parts`: a reference leads from
    the root of the document, wherever it stands."""
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError(f"{kind.__name__} has no JSON Schema")
    if kind is whole:
        return kind.model_json_schema(mode="serialization")
    place = f"{kind.__module__}.{kind.__name__}"
    template = "#/$defs/" + place.replace("{", "").replace("}", "") + ".{model}"
    found = kind.model_json_schema(mode="serialization", ref_template=template)
    parts.update({f"{place}.{name}": each for name, each in found.pop("$defs", {}).items()})
    return found


def _closed(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _closed(each) for name, each in schema.items()}
    is_class = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    return {"additionalProperties": False, **made} if is_class else made
