"""Numbers of fields for whoever makes Protobuf schemas: the ones that a subject has had for these names.

A field has the number that any version of its subject has for its name, and a new one a number that none
has had. So the whole history is read by one numbering, whatever was added and dropped, and a shape that comes
again is the version that it was.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

_OWN_RESERVED = range(19000, 20000)
"""Numbers that Protobuf keeps for itself."""
Known = dict[str, dict[str, int]]
"""Message → field → number, of all versions."""


def known_numbers(texts: Iterable[str]) -> Known:
    """Of the messages of these files."""
    from headwater.schemas.protobuf import compiler  # which imports the printer, and that this

    known: Known = {}
    for text in texts:
        for message in compiler.compiled(text, ()).file[-1].message_type:
            own = known.setdefault(message.name, {})
            own.update({each.name: each.number for each in message.field})
    return known


def number(name: str, numbers: dict[str, int]) -> int:
    """Of a field; noted in `numbers`, which are those of its message."""
    if name not in numbers:
        fresh = max(numbers.values(), default=0) + 1
        numbers[name] = _OWN_RESERVED.stop if fresh in _OWN_RESERVED else fresh
    return numbers[name]


def by_number(
    fields: Sequence[FieldDescriptorProto], types: Container[str]
) -> list[FieldDescriptorProto]:
    """As a text that is normalised has them. Those of `types`, which a map or a group makes where it stands,
    stay in their order: values name a message by its place among them."""
    making = [each for each in fields if each.type_name.rpartition(".")[2] in types]
    numbers = [each.number for each in making]
    ordered = sorted(fields, key=lambda each: each.number)
    if numbers == sorted(numbers):
        return ordered
    made = set(numbers)
    return [each for each in ordered if each.number not in made] + making
