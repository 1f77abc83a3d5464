"""Protobuf behind five bytes and the place of its message in the file; in JSON by the fields' own names.

| after the id       | of a message that is …                                        |
|--------------------|---------------------------------------------------------------|
| 0                  | the first of its file                                         |
| n, i₁ … iₙ         | the i₁th of its file, in it the i₂th, …; all zigzag varints   |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from headwater.schemas.model import Parsed
from headwater.schemas.protobuf import document
from headwater.schemas.values import exact, messages
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.fit.protobuf import fit
from headwater.schemas.values.header import Json, indexes_of, letters_max

_SHOWN = 300
BYTES_MAX = 64 * 1024**2
BYTES_OF_A_BYTE = 64
_MESSAGE, _FIELD = 64, 16
"""At most; and at most for each of its fields."""
_LEAST = 2
"""Bytes that a message takes inside of another."""
_ANY = "google.protobuf.Any"
_VARINT, _EIGHT, _SIZED, _GROUP, _END, _FOUR = range(6)
_FIXED = {_EIGHT: 8, _FOUR: 4}
_MISFITS = (
    json_format.ParseError,
    EncodeError,
    TypeError,
    AttributeError,
    LookupError,
    ValueError,
    RecursionError,
)


class ProtobufCodec:
    kind = "protobuf"

    def __init__(
        self, parsed: Parsed, *, reader: Descriptor | None = None, in_micros: bool = False
    ) -> None:
        """`reader`: the message as which values are to be read; None: as they were written. `in_micros`: a
        Timestamp is cut off at the microsecond, as Spark's `from_protobuf` does it."""
        assert isinstance(parsed, document.ProtobufSchema)
        self.reader, self._in_micros = reader, in_micros
        pool = DescriptorPool()
        for each in parsed.files.file:
            pool.Add(each)
        self._file = pool.FindFileByName(parsed.file.name)
        self._order = [each.name for each in parsed.file.message_type]
        self._nested = {
            each.name: [inner.name for inner in each.nested_type]
            for each in parsed.file.message_type
        }
        self._found: dict[tuple[int, ...], Descriptor] = {}

    def message(self, indexes: tuple[int, ...] = (0,)) -> Descriptor:
        found = self._found.get(indexes)
        if found is None:
            found = self._found[indexes] = self._find(indexes)
        return found

    def _find(self, indexes: tuple[int, ...]) -> Descriptor:
        try:
            found: Descriptor = self._file.message_types_by_name[self._order[indexes[0]]]
            for each in indexes[1:]:
                found = found.nested_types[each]
        except (IndexError, KeyError):
            raise NotOfItsSchema(f"its schema has no message {list(indexes)}") from None
        if found.GetOptions().map_entry:
            raise NotOfItsSchema(f"the message {list(indexes)} of its schema is an entry of a map")
        return found

    def decode(self, body: bytes) -> Json:
        indexes, start = indexes_of(body)
        message = self.message(indexes)
        if not self.is_read(message):
            raise NotOfItsSchema(f"it is a {message.full_name}, and no {_full_name(self.reader)}")
        data = body[start:]
        _check_size(data, message)
        made = GetMessageClass(message)()
        try:
            made.ParseFromString(data)
        except DecodeError as error:
            raise NotOfItsSchema(f"no Protobuf of its schema: {error}") from None
        reading = messages.Reading(letters_max(len(body)), in_micros=self._in_micros)
        return reading.plain(made, self.reader)

    def is_read(self, message: Descriptor) -> bool:
        """Whether it is the one as which values are to be read, wherever it stands in its file."""
        return self.reader is None or _own_name(message) == _own_name(self.reader)

    def encode(self, value: Json) -> bytes:
        """Raises NotOfItsSchema."""
        made = GetMessageClass(self.message())()
        try:
            json_format.ParseDict(fit(value, self.message()), made)
            return b"\0" + bytes(made.SerializeToString())
        except _MISFITS as error:
            raise NotOfItsSchema(
                f"its Protobuf schema does not take it: {error}"[:_SHOWN]
            ) from None

    def encode_text(self, text: str) -> bytes:
        return self.encode(exact.loads(text))


def _own_name(message: Descriptor) -> str:
    """Without the package, as the rules of compatibility compare it."""
    return message.full_name.removeprefix(f"{message.file.package}.")


def _full_name(message: Descriptor | None) -> str:
    return "" if message is None else message.full_name


# ---- how much memory a message takes ------------------------------------------------------------------


def _check_size(data: bytes, message: Descriptor) -> None:
    """Raises NotOfItsSchema. A message without a byte takes two bytes in its list, and in memory a place for
    each field of its type: of a stranger's type of thousands, a gigabyte for a megabyte. So it is counted on
    its bytes before they are parsed; what is no Protobuf at all is left to the parser."""
    most = BYTES_MAX + BYTES_OF_A_BYTE * len(data)
    if _widest(message) * (1 + len(data) // _LEAST) > most and _counted(data, message, most) > most:
        raise NotOfItsSchema("a few bytes of it are very many fields: its messages are too wide")


@lru_cache(maxsize=256)
def _widest(message: Descriptor) -> float:
    """Of all messages in it; infinite where an Any says by itself what is in it."""
    found, waiting = {message.full_name: message}, [message]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return float("inf") if _ANY in found else max(map(_size, found.values()))


def _size(message: Descriptor | None) -> int:
    return 0 if message is None else _MESSAGE + _FIELD * len(message.fields)


def _counted(data: bytes, message: Descriptor, most: int) -> int:
    total, waiting = 0, list[tuple[int, int, Descriptor]]()
    waiting.append((0, len(data), message))
    while waiting and total <= most:
        start, end, own = waiting.pop()
        total += _size(own)
        around: list[Descriptor | None] = []
        """Of groups, which end by a tag of their own."""
        inside: Descriptor | None = _in_any(data, start, end, own) if own.full_name == _ANY else own
        for number, wire, at, stop in _fields(data, start, end):
            if wire == _END:
                inside = around.pop() if around else None
                continue
            field = None if inside is None else inside.fields_by_number.get(number)
            inner = None if field is None else field.message_type
            if own.full_name == _ANY and number == _SIZED:
                inner = inside
            if wire == _GROUP:
                around.append(inside)
                inside = inner
                total += _size(inner)
            elif wire == _SIZED and inner is not None:
                waiting.append((at, stop, inner))
    return total


def _in_any(data: bytes, start: int, end: int, message: Descriptor) -> Descriptor | None:
    """What it says to be."""
    url = b""
    for number, wire, at, stop in _fields(data, start, end):
        if number == 1 and wire == _SIZED:
            url = data[at:stop]
    try:
        name = url.decode().rpartition("/")[2]
        found: Descriptor = message.file.pool.FindMessageTypeByName(name)
    except (KeyError, UnicodeDecodeError):
        return None
    return found


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, where its value begins, and ends), as far as they are any."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire, start = tag >> 3, tag & 7, at
        if wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire == _SIZED:
            size, start = _varint(data, at, end)
            at = start + size
        elif wire in _FIXED:
            at += _FIXED[wire]
        elif wire > _FOUR:
            return
        if at > end:
            return
        yield number, wire, start, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Behind `end` where there is none."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return 0, end + 1
