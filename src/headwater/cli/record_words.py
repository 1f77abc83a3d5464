"""What `tail`, `replay` and `produce` are told alike, and how a record looks on a line.

| | on a terminal                      | piped: one JSON object on each line                      |
|-|------------------------------------|----------------------------------------------------------|
| key, value | as text                 | `key`, `value`: a string is the text itself, anything    |
|            |                         | else is JSON; null for none                              |
| undecodable| hexadecimal             | `key_hex`, `value_hex` instead                           |
| headers    | name=value              | `headers`: pairs of name and value                       |

`headwater produce --jsonl` reads these lines back.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.completion import topic_names

if TYPE_CHECKING:
    from headwater.browse.decoder import Decoder, Shown
    from headwater.browse.filters import Filter
    from headwater.client.records import Record

PLACES = "beginning, end, an offset (17, or 2:17 of partition 2), a time (2026-11-15T15:00), -10m"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIM, _CYAN, _YELLOW, _RED, _PLAIN = "\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


def topic_argument(metavar: str = "TOPIC", said: str = "Name of the topic.") -> Any:
    return typer.Argument(..., metavar=metavar, help=said, autocompletion=topic_names)


def partition_option() -> Any:
    return typer.Option(
        [], "--partition", metavar="NUMBER", min=0, help="Only this partition; may be given again."
    )


def key_option() -> Any:
    return typer.Option(
        None, "--key", metavar="KEY", help="Only this key; of a JSON key with one field, its value."
    )


def grep_option() -> Any:
    return typer.Option(
        None,
        "--grep",
        metavar="TEXT|/REGEX/",
        help="Only records with this in key, value or headers.",
    )


def where_option() -> Any:
    return typer.Option(
        [],
        "--where",
        metavar="FIELD=VALUE",
        help="Only records whose value has this, as in after.total=12; also !=. May be given again.",
    )


def filter_of(
    key: str | None, grep: str | None, where: list[str], ignore_case: bool = False
) -> Filter:
    from headwater.browse.filters import Filter

    return Filter(key=key, grep=grep, where=tuple(where), ignore_case=ignore_case)


# ---- one record, one line -------------------------------------------------------------------------


def as_text(record: Record, decoder: Decoder, *, colours: bool) -> str:
    key = decoder.decode(record.key, record.topic)
    value = decoder.decode(record.value, record.topic)
    parts = [
        (_DIM, moment(record.timestamp_ms).replace("T", " ").rstrip("Z")),
        (_CYAN, f"{record.partition}:{record.offset}"),
        (_YELLOW, "-" if record.key is None else printable(key.text)),
        (_RED, "(tombstone)") if record.is_tombstone else ("", printable(value.text)),
    ]
    if record.headers:
        parts.append((_DIM, " ".join(_header_text(*each) for each in record.headers)))
    if not colours:
        return "  ".join(text for _, text in parts)
    return "  ".join(f"{colour}{text}{_PLAIN}" if colour else text for colour, text in parts)


def moment(timestamp_ms: int) -> str:
    """In UTC; a number of milliseconds that no calendar has stays a number."""
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def printable(text: str) -> str:
    """On one line, and without what would steer the terminal."""
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def as_json(record: Record, decoder: Decoder) -> str:
    line: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_ms),
        **_fields("key", decoder.decode(record.key, record.topic)),
        **_fields("value", decoder.decode(record.value, record.topic)),
    }
    if record.headers:
        line["headers"] = [[name, _header_value(value)] for name, value in record.headers]
    return json.dumps(line, ensure_ascii=False)


def _fields(name: str, shown: Shown) -> dict[str, Any]:
    if shown.kind == "hex":
        return {f"{name}_hex": shown.value}
    if shown.is_by_schema or (shown.kind == "json" and not isinstance(shown.value, str)):
        return {name: shown.value}
    return {name: None if shown.kind == "null" else shown.text}


def _header_text(name: str, value: bytes | None) -> str:
    shown = _header_value(value)
    text = shown["hex"] if isinstance(shown, dict) else shown
    return printable(name if text is None else f"{name}={text}")


def _header_value(value: bytes | None) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()} if value is not None else None
