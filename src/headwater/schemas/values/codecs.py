"""A codec for each schema that values name, and for the subject of what is to be written.

    codecs = Codecs(RegistryClient(url).found)          # or TopicLookup(log): `_schemas` itself
    codecs.decode(data)                                 # as JSON has it
    codecs.encode("orders-value", {"id": 7})            # the five bytes, and the value

What has an id never changes, so a codec is made once. For several threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headwater.schemas.bounds import CLOSURE_BYTES_MAX
from headwater.schemas.cache import KNOWN_MAX, Cache, letters_of
from headwater.schemas.errors import InvalidSchema, RegistryError
from headwater.schemas.model import AVRO, PROTOBUF, Imported, Schema
from headwater.schemas.values import header
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound
from headwater.schemas.values.header import Json

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


class Found(NamedTuple):
    """A schema, with all that it refers to in the order in which it is needed."""

    id: int
    schema: Schema
    imported: tuple[Imported, ...] = ()


class Lookup(Protocol):
    """Where schemas come from; None: it is not there."""

    def by_id(self, identity: int) -> Found | None: ...

    def latest(self, subject: str) -> Found | None: ...


class Codec(Protocol):
    kind: str
    """avro, protobuf or json-schema."""

    def decode(self, body: bytes) -> Json:
        """What is behind the five bytes, as JSON has it. Raises NotOfItsSchema."""
        ...

    def encode(self, value: Json) -> bytes:
        """From what a parser of JSON has made. Raises NotOfItsSchema."""
        ...

    def encode_text(self, text: str) -> bytes:
        """From JSON itself: exactly what it says, or NotOfItsSchema."""
        ...


class Codecs:
    """`pinned`: the schema as which Avro and Protobuf are read, whatever they were written as. `for_columns`:
    times are those of columns: without what is less than a microsecond, and of a day as numbers."""

    def __init__(
        self, lookup: Lookup, pinned: Found | None = None, *, for_columns: bool = False
    ) -> None:
        self.lookup = lookup
        self._pinned = pinned
        self._for_columns = for_columns
        self._known: Cache[int, Codec] = Cache()
        self._latest_of: dict[int, Found] = {}
        """Those that were written by."""

    def of(self, identity: int) -> Codec:
        """Raises SchemaNotFound."""
        known = self._known.get(identity)
        if known is None:
            found = self.lookup.by_id(identity)
            if found is None:
                raise SchemaNotFound(f"no schema has the id {identity}")
            known = self._learn(found)
        return known

    def known(self, identity: int) -> Codec | None:
        """Without asking for it."""
        return self._known.get(identity)

    def _learn(self, found: Found) -> Codec:
        made = codec(found, self._pinned, for_columns=self._for_columns)
        return self._known.put(found.id, made, letters_of(found.schema, found.imported))

    def decode(self, data: bytes) -> Json:
        """Raises SchemaNotFound, NotOfItsSchema."""
        identity = header.identity_of(data)
        if identity is None:
            raise NotOfItsSchema("it does not begin with the id of a schema")
        return self.of(identity).decode(data[header.PREFIX_BYTES :])

    def encode(self, subject: str, value: Json) -> bytes:
        """By the subject's latest schema. Raises SchemaNotFound, NotOfItsSchema."""
        identity, known = self._latest(subject)
        return header.prefix(identity) + known.encode(value)

    def encode_text(self, subject: str, text: bytes) -> bytes:
        """The same of JSON as text. Raises SchemaNotFound, NotOfItsSchema."""
        identity, known = self._latest(subject)
        try:
            return header.prefix(identity) + known.encode_text(text.decode())
        except UnicodeDecodeError as error:
            raise NotOfItsSchema(f"it is no JSON: {error}") from None

    def _latest(self, subject: str) -> tuple[int, Codec]:
        found = self.lookup.latest(subject)
        if found is None:
            raise SchemaNotFound(f"there is no subject {subject}")
        if self._latest_of.get(found.id) != found:
            # An id never changes, unless the registry's topic was made anew.
            self._known.drop(found.id)
            if len(self._latest_of) >= KNOWN_MAX:
                self._latest_of.clear()
            self._latest_of[found.id] = found
        return found.id, self._known.get(found.id) or self._learn(found)


def _message(pinned: Found | None) -> Descriptor | None:
    """The first of its file, which a query's columns are of."""
    if pinned is None or pinned.schema.kind != PROTOBUF:
        return None
    from headwater.schemas import descriptors
    from headwater.schemas.values.protobuf import ProtobufCodec

    return ProtobufCodec(descriptors.of(pinned.schema.text, pinned.imported)).message()


def codec(found: Found, pinned: Found | None = None, *, for_columns: bool = False) -> Codec:
    """Raises SchemaNotFound where the schema cannot be used: its library is missing, or it is none."""
    schema = found.schema
    try:
        if letters_of(schema, found.imported) > CLOSURE_BYTES_MAX:
            raise InvalidSchema(f"with its references it has more than {CLOSURE_BYTES_MAX} letters")
        if schema.kind == AVRO:
            from headwater.schemas.values.avro import AvroCodec

            same = pinned is None or pinned.id == found.id or pinned.schema.kind != AVRO
            reader = None if same or pinned is None else (pinned.schema.text, pinned.imported)
            return AvroCodec(schema.text, found.imported, reader, for_columns=for_columns)
        if schema.kind == PROTOBUF:
            from headwater.schemas import descriptors
            from headwater.schemas.values.protobuf import ProtobufCodec

            parsed = descriptors.of(schema.text, found.imported)
            return ProtobufCodec(parsed, reader=_message(pinned), in_micros=for_columns)
        from headwater.schemas.values.json import JsonCodec

        return JsonCodec(schema.text, found.imported)
    except ModuleNotFoundError as error:
        raise SchemaNotFound(
            f"its schema {found.id} needs the package {error.name}",
            hint="pip install 'headwater[schemas]'",
        ) from None
    except (RegistryError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, RegistryError) and error.status >= 500:
            raise  # it says nothing of the schema
        raise SchemaNotFound(f"its schema {found.id} cannot be used: {error}"[:300]) from None
