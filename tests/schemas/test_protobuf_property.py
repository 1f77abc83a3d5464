"""Whenever two Protobuf schemas are called compatible, one parses what the other wrote, by protobuf."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError, Message

from headwater.schemas import kinds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.protobuf import compiler

ROUNDS = int(os.environ.get("HEADWATER_SCHEMA_ROUNDS", "60"))
_SCALARS = ("int32", "int64", "uint32", "sint32", "sint64", "fixed32", "fixed64", "float", "double", "bool",
            "string", "bytes", "E", "M", "map<string, int32>", "map<int32, M>")  # fmt: skip


@dataclass(frozen=True)
class Field:
    number: int
    kind: str
    label: str = "optional"
    oneof: str = ""

    def text(self) -> str:
        label = "" if self.oneof or self.kind.startswith("map") else f"{self.label} "
        if self.kind == "group":
            return f"{self.label} group G{self.number} = {self.number} {{ optional int32 x = 1; }}"
        return f"{label}{self.kind} f{self.number} = {self.number};"


@dataclass(frozen=True)
class Proto:
    fields: tuple[Field, ...]
    inner: tuple[Field, ...] = field(default=(Field(1, "int32"), Field(2, "string")))

    def text(self) -> str:
        return (
            'syntax = "proto2"; package p; message R { '
            + _body(self.fields)
            + " } message M { "
            + _body(self.inner)
            + " } enum E { A = 0; B = 1; }"
        )


def _body(fields: tuple[Field, ...]) -> str:
    plain = [each.text() for each in fields if not each.oneof]
    members = [each.text() for each in fields if each.oneof]
    return " ".join([*plain, *([f"oneof o {{ {' '.join(members)} }}"] if members else [])])


def _field(chance: random.Random, number: int) -> Field:
    kind = chance.choice((*_SCALARS, "group"))
    label = chance.choice(["optional", "optional", "repeated", "required"])
    is_member = label == "optional" and kind != "group" and not kind.startswith("map")
    return Field(number, kind, label, "o" if is_member and chance.random() < 0.3 else "")


def _proto(chance: random.Random) -> Proto:
    numbers = chance.sample(range(1, 6), chance.randrange(1, 4))
    return Proto(tuple(_field(chance, each) for each in numbers))


def _changed(chance: random.Random, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    how, found = chance.randrange(5), list(fields)
    at = chance.randrange(len(found))
    if how == 0 and len(found) > 1:
        del found[at]
    elif how == 1:
        free = [each for each in range(1, 7) if each not in {one.number for one in found}]
        found.append(_field(chance, chance.choice(free)))
    elif how == 2 and not found[at].kind.startswith("map"):
        found[at] = replace(found[at], label=chance.choice(["optional", "repeated"]), oneof="")
    else:
        found[at] = _field(chance, found[at].number)
    return tuple(found)


def _class(text: str) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    for file in compiler.compiled(text, ()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.R"))


def _filled(chance: random.Random, made: Message, *, all_of_it: bool = False) -> Message:
    for each in made.DESCRIPTOR.fields:
        if not (all_of_it or each.is_required) and chance.random() < 0.3:
            continue
        _set(chance, made, each)
    return made


def _set(chance: random.Random, made: Message, each) -> None:
    value = getattr(made, each.name) if each.is_repeated or each.message_type else None
    is_map = each.message_type is not None and each.message_type.GetOptions().map_entry
    if is_map and each.message_type.fields_by_name["value"].message_type:
        _filled(chance, value[3], all_of_it=True)
    elif is_map:
        value["k"] = 4
    elif each.message_type is not None:
        _filled(chance, value.add() if each.is_repeated else value, all_of_it=True)
    else:
        one = _scalar(chance, each)
        value.extend([one, one]) if each.is_repeated else setattr(made, each.name, one)


def _scalar(chance: random.Random, each) -> object:
    if each.enum_type is not None:
        return chance.choice([0, 1])
    return {"string": "text", "bytes": b"\x08\x01", "bool": True, "double": 1.5, "float": 0.5}.get(
        _NAMES.get(each.type, ""), chance.choice([0, 1, 2**31 - 1])
    )


_NAMES = {1: "double", 2: "float", 8: "bool", 9: "string", 12: "bytes"}


def test_what_is_called_compatible_is_parsed():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    compatible = 0
    for number in range(ROUNDS):
        was = _proto(chance)
        now = replace(was, fields=_changed(chance, was.fields))
        if chance.random() < 0.3:
            now = replace(now, inner=_changed(chance, was.inner))
        try:
            old, new = (kinds.parse("PROTOBUF", each.text()) for each in (was, now))
        except InvalidSchema:
            continue
        if new.unreadable(old):
            continue
        compatible += 1
        writer, reader = _class(was.text()), _class(now.text())
        for _ in range(5):
            written = _filled(chance, writer())
            try:
                data = written.SerializeToString()
            except EncodeError:
                continue  # one that is required was left out
            try:
                read = reader.FromString(data)
            except DecodeError as error:
                pytest.fail(
                    f"seed {seed}, round {number}: {error}\n{written}\n{was.text()}\n{now.text()}"
                )
            _check_kept(seed, written, read)
    assert compatible > ROUNDS // 20


def _check_kept(seed: int, written: Message, read: Message) -> None:
    """What both have is not lost: a message, a text or a list that was written is there."""
    for each, value in written.ListFields():
        other = read.DESCRIPTOR.fields_by_number.get(each.number)
        if other is None or each.enum_type or other.enum_type:
            continue
        found = getattr(read, other.name)
        if (
            each.type == other.type
            and each.is_repeated == other.is_repeated
            and not each.message_type
        ):
            assert found == value, (seed, written, read)
        if each.message_type is not None and not other.is_repeated and not each.is_repeated:
            assert read.HasField(other.name), (seed, written, read)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("optional group G = 1 { optional int32 x = 1; }",
         "message G { optional int32 x = 1; } optional G g = 1;"),
        ("message G { optional int32 x = 1; } repeated G g = 1;",
         "repeated group G = 1 { optional int32 x = 1; }"),
    ],
)  # fmt: skip
def test_a_group_is_no_message_on_the_wire(was: str, now: str):
    old, new = (
        kinds.parse("PROTOBUF", f'syntax = "proto2"; message R {{ {each} }}') for each in (was, now)
    )
    assert {each.type for each in new.unreadable(old)} == {"FIELD_KIND_CHANGED"}


@pytest.mark.parametrize("place", ["file", "field"])
def test_a_delimited_message_of_an_edition_is_a_group(place: str):
    said = "features.message_encoding = DELIMITED"

    def text(words: str) -> str:
        file = f"option {said};" if words == "file" else ""
        own = f"[{said}]" if words == "field" else ""
        return (
            f'edition = "2023"; {file} message M {{ int32 x = 1; }} message R {{ M m = 1 {own}; }}'
        )

    old, new = (kinds.parse("PROTOBUF", text(each)) for each in ("", place))
    assert {each.type for each in new.unreadable(old)} == {"FIELD_KIND_CHANGED"}
