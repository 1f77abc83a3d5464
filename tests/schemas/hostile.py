"""Schemas that a stranger might have made to keep others busy, by chance: whatever multiplies work, in each
of the three languages, one in the other; and values that meet it. A process of its own runs them:

    python -m tests.schemas.hostile SEED ROUNDS     prints each round before it begins

A round of more than `CPU_S` seconds or `MEMORY_BYTES` ends the process.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator

from headwater.errors import HeadwaterError
from headwater.schemas import kinds
from headwater.schemas.bounds import SCHEMA_BYTES_MAX
from headwater.schemas.values.avro import AvroCodec
from headwater.schemas.values.codecs import Codec
from headwater.schemas.values.json import JsonCodec
from headwater.schemas.values.protobuf import ProtobufCodec

CPU_S = 25
MEMORY_BYTES = 2 * 1024**3
PARTS = (1, 50, 3_000, 60_000)
WIDTHS = (1, 2, 7, 300, 3_000, 15_000)
LETTERS_MAX = SCHEMA_BYTES_MAX
DRAFTS = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")


class Avro:
    """All records, enums and fixed are new, or such as were before: a few letters may be very deep."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.names = chance, list[str]()
        self.left = 20_000

    def width(self) -> int:
        found = min(self.chance.choice(WIDTHS), max(self.left, 1))
        self.left -= found
        return found

    def name(self) -> str:
        self.names.append(f"T{len(self.names)}")
        return self.names[-1]

    def schema(self, depth: int = 4) -> object:
        chance = self.chance
        if depth == 0 or chance.random() < 0.1:
            return chance.choice(["null", "boolean", "int", "string", "bytes", *self.names[-3:]])
        return chance.choice([self.array, self.map, self.union, self.enum, self.record, self.record,
                              self.chain])(depth - 1)  # fmt: skip

    def array(self, depth: int) -> object:
        return {"type": "array", "items": self.schema(depth)}

    def map(self, depth: int) -> object:
        return {"type": "map", "values": self.schema(depth)}

    def fixed(self) -> object:
        return {"type": "fixed", "name": self.name(), "size": self.chance.choice([0, 1, 2**31])}

    def union(self, depth: int) -> object:
        inner = self.schema(depth)
        is_union = isinstance(inner, list)
        called = [] if is_union else [inner]
        return [*(self.fixed() for _ in range(self.width())), *called]

    def enum(self, _: int) -> object:
        symbols = [f"s{n}" for n in range(self.width())]
        return {"type": "enum", "name": self.name(), "symbols": symbols}

    def record(self, depth: int) -> object:
        name, inner = self.name(), self.schema(depth)
        label = self.chance.choice(["f", "f" * 250])
        kinds = self.chance.choice([["null"], ["null", "int"], [["null", "int"], "null"]])
        fields = [
            {"name": f"{label}{n}", "type": each, "default": 1 if each == "int" else None}
            for n in range(self.width())
            for each in kinds[:1]
        ]
        inside: dict[str, object] = {"name": "inside", "type": inner}
        return {"type": "record", "name": name, "fields": [*fields, inside]}

    def chain(self, depth: int) -> object:
        """Each of two that are each of two …"""
        kind = self.schema(depth)
        before = kind["name"] if isinstance(kind, dict) and "name" in kind else kind
        if isinstance(kind, list) or not isinstance(before, str):
            return kind
        for _ in range(self.chance.choice([2, 20, 45])):
            name = self.name()
            fields = [{"name": "a", "type": kind}, {"name": "b", "type": before}]
            kind, before = {"type": "record", "name": name, "fields": fields}, name
        return kind

    def bodies(self) -> Iterator[bytes]:
        for parts in PARTS:
            count = _long(parts)
            yield count + b"\2" * parts + b"\0"
            yield count + b"\1" * parts + b"\0"
            yield count + b"\2\0" * parts + b"\0"
            yield b"\2" * parts
            yield b"\0" * parts

    def texts(self) -> Iterator[str]:
        for parts in PARTS:
            for part in ("1", '"s1"', "{}", "[]", "null", '{"inside":1}', '{"T1":1}', '"AA=="'):
                yield f"[{','.join([part] * parts)}]"
                yield f'{{"inside":[{",".join([part] * parts)}]}}'
        yield "{}"

    def codec(self, schema: object) -> Codec:
        return AvroCodec(json.dumps(schema))


class Json:
    def __init__(self, chance: random.Random) -> None:
        self.chance, self.left = chance, 20_000
        self.defs = chance.choice([1, 3, 12])

    def width(self) -> int:
        found = min(self.chance.choice(WIDTHS), max(self.left, 1))
        self.left -= found
        return found

    def root(self) -> dict[str, object]:
        defs = {f"d{n}": self.schema(2) for n in range(self.defs)}
        return {"$schema": self.chance.choice(DRAFTS), "$defs": defs, **self.schema(3)}

    schema_words = ("properties", "items", "allOf", "anyOf", "oneOf", "not", "if", "contains", "enum",
                    "pattern", "patternProperties", "propertyNames", "uniqueItems", "unevaluatedProperties",
                    "unevaluatedItems", "dependentRequired", "dependentSchemas", "dependencies", "required",
                    "multipleOf", "format", "$ref", "additionalProperties", "prefixItems", "const",
                    "contentMediaType")  # fmt: skip

    def schema(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        for _ in range(self.chance.choice([1, 2, 4])):
            word = self.chance.choice(self.schema_words)
            made[word] = self.value(word, depth)
        return made

    def inner(self, depth: int) -> dict[str, object]:
        if depth <= 0 or self.chance.random() < 0.4:
            return {"$ref": f"#/$defs/d{self.chance.randrange(self.defs)}"}
        return self.schema(depth - 1)

    def value(self, word: str, depth: int) -> object:
        chance = self.chance
        if word in ("allOf", "anyOf", "oneOf", "prefixItems"):
            if chance.random() < 0.5:
                return [self.inner(depth)] * self.width()
            return [self.inner(depth) for _ in range(chance.choice([1, 2, 5]))]
        if word in ("properties", "dependentSchemas", "dependencies"):
            one = self.inner(depth)
            return {f"{chance.choice(['a', 'k'])}{n}": one for n in range(self.width())}
        if word == "patternProperties":
            one = self.inner(depth)
            return {f"{self.pattern()}|{n}": one for n in range(min(self.width(), 300))}
        if word == "enum":
            part: object = chance.choice([0, [0] * 50, "x" * 50, {"a": 1}])
            return [[part, n] for n in range(self.width())]
        if word == "dependentRequired":
            names = [f"k{n}" for n in range(self.width())]
            return dict.fromkeys(names[: 1 + 20000 // len(names)], names)
        simple: dict[str, Callable[[], object]] = {
            "uniqueItems": lambda: True,
            "required": lambda: [f"k{n}" for n in range(self.width())],
            "pattern": self.pattern,
            "multipleOf": lambda: chance.choice([1, 1e-300, 10**300]),
            "format": lambda: chance.choice(["regex", "idn-hostname", "uri-template", "email", "date-time"]),
            "$ref": lambda: f"#/$defs/d{chance.randrange(self.defs)}",
            "const": lambda: [0] * self.width(),
            "contentMediaType": lambda: "application/json",
        }  # fmt: skip
        return simple[word]() if word in simple else self.inner(depth)

    def pattern(self) -> str:
        return self.chance.choice(["[ab]*a[ab]{300}c", "(?=a)(a|aa)+$", "(a|a)*b", "^k", "(\\w{50}){18}",
                                   "(x+x+)+y", "(?!b)(.*)*c"])  # fmt: skip

    def bodies(self) -> Iterator[bytes]:
        yield b"[" * 100_000

    def texts(self) -> Iterator[str]:
        for parts in PARTS:
            for part in (
                "1",
                "1.5",
                '"aaaaaaaaaa"',
                "{}",
                '{"a1":1}',
                "[[0],1]",
                '{"k0":1,"k1":2}',
            ):
                yield f"[{','.join([part] * parts)}]"
            yield json.dumps({f"k{n}": 1 for n in range(parts)})
            yield json.dumps({f"a{n}": {"k1": [n]} for n in range(parts)})
            yield json.dumps("a" * parts)
            yield json.dumps({"ab" * parts: 1})
            yield json.dumps([[n] for n in range(parts)])
        for levels in (50, 400):
            yield '{"a1":' * levels + "1" + "}" * levels
            yield "[" * levels + "]" * levels

    def codec(self, schema: object) -> Codec:
        return JsonCodec(json.dumps(schema), ())


class Protobuf:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def schema(self) -> str:
        """Messages in a row, each of which may hold any: so do they themselves."""
        count = self.chance.choice([1, 2, 5])
        parts = [self.message(n, count) for n in range(count)]
        imports = 'import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";'
        return f'syntax = "proto2"; {imports} package p; {" ".join(parts)}'

    def message(self, number: int, count: int) -> str:
        chance, fields = self.chance, list[str]()
        kinds = [f"M{n}" for n in range(count)]
        kinds += ["google.protobuf.Any", "google.protobuf.Value", "google.protobuf.Struct"]
        for place in range(1, 5):
            fields.append(f"repeated {chance.choice(kinds)} f{place} = {place};")
        fields.append(f"map<int32, {chance.choice(kinds)}> f5 = 5;")
        fields.append("repeated group G6 = 6 { repeated G6 f1 = 1; optional int32 f2 = 2; }")
        label, kind = (
            chance.choice(["optional", "repeated"]),
            chance.choice(["int32", "string", *kinds]),
        )
        name = chance.choice(["f", "f" * 240])
        most = chance.choice([0, 10, 300, 3_000])
        fields += [f"{label} {kind} {name}{n} = {n};" for n in range(10, 10 + most)]
        symbols = " ".join(f"S{number}_{n} = {n};" for n in range(chance.choice([1, 2_000])))
        return f"message M{number} {{ {' '.join(fields)} enum E{number} {{ {symbols} }} }}"

    def bodies(self) -> Iterator[bytes]:
        url = b"\n\x08x.y/p.M0"
        for parts in PARTS:
            for field in range(1, 6):
                yield b"\0" + bytes([field << 3 | 2, 0]) * parts
                inner = bytes([field << 3 | 2, 0]) * parts
                yield b"\0" + bytes([field << 3 | 2]) + _varint(len(inner)) + inner
                packed = url + b"\x12" + _varint(len(inner)) + inner
                yield b"\0" + bytes([field << 3 | 2]) + _varint(len(packed)) + packed
            yield b"\0" + bytes([6 << 3 | 3, 6 << 3 | 4]) * parts
            yield b"\0" + bytes([6 << 3 | 3]) * parts

    def texts(self) -> Iterator[str]:
        for parts in PARTS:
            for part in ("{}", '{"f1":[]}', '{"f1":[{}]}', "1", "null"):
                for field in range(1, 5):
                    yield f'{{"f{field}":[{",".join([part] * parts)}]}}'
        yield "{}"

    def codec(self, schema: object) -> Codec:
        return ProtobufCodec(kinds.parse("PROTOBUF", str(schema), is_new=False))


def _letters(schema: object) -> Iterator[str]:
    """A registry takes no more."""
    return itertools.chain.from_iterable(json.JSONEncoder().iterencode(schema))


def _long(number: int) -> bytes:
    return _varint(number << 1)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def made(seed: int) -> tuple[Avro | Json | Protobuf, object]:
    chance = random.Random(seed)
    language = chance.choice([Avro, Json, Protobuf])
    while True:
        kind = language(chance)
        schema = kind.root() if isinstance(kind, Json) else kind.schema()
        if sum(1 for _ in zip(range(LETTERS_MAX), _letters(schema), strict=False)) < LETTERS_MAX:
            return kind, schema


def tries(seed: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a reader and a writer do, value by value, each by its name."""
    kind, schema = made(seed)
    found: list[Codec] = []

    def make() -> None:
        found.append(kind.codec(schema))

    yield "codec", make
    if not found:
        return
    for number, body in enumerate(kind.bodies()):
        yield f"body {number}", lambda body=body: json.dumps(found[0].decode(body))
    for number, text in enumerate(kind.texts()):
        yield f"text {number}", lambda text=text: found[0].encode_text(text)


def run(seed: int, rounds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for each in range(seed, seed + rounds):
        for name, attempt in tries(each):
            print(each, name, flush=True)
            signal.setitimer(signal.ITIMER_PROF, CPU_S)  # which ends the process
            try:
                attempt()
            except (HeadwaterError, ValueError, KeyError, TypeError, RecursionError):
                pass  # as `codecs` has it of schemas, and all others of values
    print("done", flush=True)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
