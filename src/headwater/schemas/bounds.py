"""How much of a stranger's schema is looked at: bytes, depth, references. Before anything parses it.

Parsers recurse, and compatibility compares what is nested: both are linear in what these bounds allow.
"""

from __future__ import annotations

import json
import math

from headwater.schemas.errors import InvalidSchema, too_large

SCHEMA_BYTES_MAX = 768 * 1024
"""With its record's other fields and JSON's escapes it has to fit into a message of 1 MiB."""
RECORD_BYTES_MAX = 1_000_000
"""Of all that is kept of one version, with JSON's escapes."""
NAME_LETTERS_MAX = 255
"""Of a field or a symbol: a value shows it for each of its bytes."""
DEPTH_MAX = 64
REFERENCES_MAX = 200
"""Direct and indirect together."""
CLOSURE_BYTES_MAX = 4 * 1024**2
"""A schema with all that it refers to."""
DEFAULT_PARTS_MAX = 100_000
"""Of Avro's fields that a value does not have: a default may leave what is in it to defaults."""
DIFFERENCES_MAX = 50
"""So many sentences say what is wrong; the rest are counted."""


def check_name(name: str) -> None:
    """Raises InvalidSchema."""
    if len(name) > NAME_LETTERS_MAX:
        raise InvalidSchema(
            f"Invalid schema: a name has more than {NAME_LETTERS_MAX} letters: {name[:40]}…"
        )


def check_record(value: bytes | None) -> None:
    """Raises too_large: a broker would refuse it."""
    if (size := len(value or b"")) > RECORD_BYTES_MAX:
        raise too_large(f"The version has {size} bytes, and {RECORD_BYTES_MAX} are the most")


def check_text(text: str) -> None:
    """Raises too_large or InvalidSchema."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > SCHEMA_BYTES_MAX:
        raise too_large(f"The schema has {size} bytes, and {SCHEMA_BYTES_MAX} are the most")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidSchema("Invalid schema: it has half a surrogate pair in it") from None


def check_depth(text: str, opening: str, closing: str, quotes: str) -> None:
    """How deep brackets are nested outside of texts in quotes. Raises InvalidSchema."""
    depth, quote, skip = 0, "", False
    for each in text:
        if skip:
            skip = False
        elif quote:
            if each == "\\":
                skip = True
            elif each == quote:
                quote = ""
        elif each in quotes:
            quote = each
        elif each in opening:
            depth += 1
            if depth > DEPTH_MAX:
                raise InvalidSchema(f"Invalid schema: it is nested deeper than {DEPTH_MAX} levels")
        elif each in closing:
            depth -= 1


def json_of(text: str, *, is_new: bool) -> object:
    """A schema that is JSON; one that is there already may have what Python alone takes. InvalidSchema."""
    check_depth(text, "{[", "}]", '"')
    try:
        return strict_json(text) if is_new else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"Invalid schema: it is no JSON: {error}"[:500]) from None


def strict_json(text: str | bytes) -> object:
    """Python would take NaN, and make Infinity of 1e999, which nobody else's parser takes. ValueError."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number there")


def _finite(text: str) -> float:
    if math.isinf(found := float(text)):
        raise ValueError(f"{text[:50]} is too large for a number")
    return found
