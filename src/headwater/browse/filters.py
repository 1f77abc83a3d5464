"""Which records are meant: by key, by words in them, by a field of their JSON or Avro. Pure.

    keep = Filter(key="17", grep="refund", where=("after.total=12",)).compiled(decoder)

Everything that is given must hold. `grep` looks at key, value and headers as they are shown, so that it
finds text in Avro as well; `/…/` is a regular expression (RE2's). A field's path is its names with dots
between (`after.items.0.name`); the value is compared as JSON where it is JSON, else as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.client.errors import BadRequest
from headwater.client.records import Keep, Record
from headwater.regex import BadRegex, Regex

if TYPE_CHECKING:
    from headwater.browse.decoder import Decoder

_PARTS = ("key", "value", "headers")
_ABSENT = object()
NAMES_MAX = 32
"""In the path of a field: at every level each way to read the dots is tried, for every record."""
_INDEX = re.compile("[0-9]{1,9}")
"""Of a list; not all that `isdigit` takes for a digit is a number."""


@dataclass(frozen=True)
class Filter:
    """`key`: the whole key, as bytes or as it is shown. `parts`: where `grep` looks."""

    key: str | bytes | None = None
    grep: str | None = None
    where: tuple[str, ...] = ()
    parts: tuple[str, ...] = _PARTS
    ignore_case: bool = False

    @property
    def is_empty(self) -> bool:
        return self.key is None and not self.grep and not self.where

    def compiled(self, decoder: Decoder) -> Keep | None:
        """A function that says whether a record is meant; None if every record is."""
        tests: list[Keep] = []
        if self.key is not None:
            tests.append(_key_test(self.key, decoder))
        if self.where:
            tests.append(_where_test(self.where, decoder))
        if self.grep:
            tests.append(_grep_test(self.grep, self.parts, self.ignore_case, decoder))
        if not tests:
            return None
        if len(tests) == 1:
            return tests[0]
        return lambda record: all(test(record) for test in tests)


def _key_test(key: str | bytes, decoder: Decoder) -> Keep:
    if isinstance(key, bytes):
        return lambda record: record.key == key
    forms = frozenset(key_forms(key))
    plain, said = key, _json(key)

    def test(record: Record) -> bool:
        if record.key is None or record.key in forms:
            return record.key is not None
        if record.key[:1] not in (b"{", b"\0"):
            return False
        shown = decoder.decode(record.key, record.topic).value
        if isinstance(shown, dict) and set(shown) == {"schema", "payload"}:
            shown = shown["payload"]  # a converter that adds schemas
        if isinstance(shown, dict) and len(shown) == 1 and not isinstance(said, dict):
            (shown,) = shown.values()
        return shown in (said, plain)

    return test


def key_forms(key: str) -> Iterable[bytes]:
    """The plain text; JSON also as writers without spaces have it."""
    said = _json(key)
    yield key.encode("utf-8", "surrogateescape")
    if isinstance(said, dict | list):
        yield json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()


def _grep_test(words: str, parts: tuple[str, ...], ignore_case: bool, decoder: Decoder) -> Keep:
    finds = _finder(words, ignore_case)
    in_key, in_value, in_headers = (part in parts for part in _PARTS)

    def test(record: Record) -> bool:
        if in_value and record.value is not None and hit(record.value, record.topic):
            return True
        if in_key and record.key is not None and hit(record.key, record.topic):
            return True
        return in_headers and any(
            finds(name) or (value is not None and hit(value, record.topic))
            for name, value in record.headers
        )

    def hit(data: bytes, topic: str) -> bool:
        if data[:1] == b"\0":
            return finds(decoder.decode(data, topic).text)
        try:
            return finds(data.decode())
        except UnicodeDecodeError:
            return finds(decoder.decode(data, topic).text)

    return test


def _finder(words: str, ignore_case: bool) -> Callable[[str], bool]:
    """Whether a text has them. An expression may be a stranger's, so RE2 runs it."""
    if len(words) <= 2 or not words[0] == words[-1] == "/":
        plain = re.compile(re.escape(words), re.IGNORECASE if ignore_case else 0)
        return lambda text: plain.search(text) is not None
    try:
        return Regex(words[1:-1], ignore_case=ignore_case).finds
    except BadRegex as error:
        raise BadRequest(
            f"{words} is no regular expression: {error}",
            hint="without the slashes it is looked for as it is written",
        ) from None


def _where_test(conditions: Iterable[str], decoder: Decoder) -> Keep:
    """All of them, of a value that is taken apart once."""
    tests = [_condition(each) for each in conditions]

    def test(record: Record) -> bool:
        if record.value is None:
            return False
        value = decoder.decode(record.value, record.topic).value
        return all(holds(value) for holds in tests)

    return test


def _condition(condition: str) -> Callable[[object], bool]:
    found = re.fullmatch(r"([^=!]+?)\s*(!=|=)\s*(.*)", condition, re.DOTALL)
    if found is None:
        raise BadRequest(
            f"{condition!r} is no condition", hint="write FIELD=VALUE, as in after.total=12"
        )
    path, sign, text = found[1].strip().split("."), found[2], found[3]
    if len(path) > NAMES_MAX:
        raise BadRequest(
            f"{condition[:20]!r}… goes through {len(path)} names, and {NAMES_MAX} are the most",
            hint="name a field that is less deep",
        )
    wanted, wants_equal = _json(text), sign == "="

    def holds(value: object) -> bool:
        at = field_of(value, path)
        return (at is not _ABSENT and _equal(at, wanted, text)) == wants_equal

    return holds


def field_of(value: Any, path: list[str]) -> Any:
    """What is at the path, or `_ABSENT`; a name may itself have dots, so the longest that fits wins."""
    if not path:
        return value
    if isinstance(value, list):
        at = int(path[0]) if _INDEX.fullmatch(path[0]) else len(value)
        return field_of(value[at], path[1:]) if at < len(value) else _ABSENT
    if not isinstance(value, dict):
        return _ABSENT
    for length in range(len(path), 0, -1):
        name = ".".join(path[:length])
        if name in value:
            return field_of(value[name], path[length:])
    return _ABSENT


def _equal(at: Any, wanted: Any, text: str) -> bool:
    if isinstance(at, str):
        return at in (text, wanted)
    return bool(at == wanted) and isinstance(at, bool) == isinstance(wanted, bool)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
