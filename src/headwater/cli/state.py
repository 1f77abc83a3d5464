"""`headwater state`: what one key of a topic was at a moment, and how it came to be so."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json, print_table
from headwater.cli.completion import topic_names
from headwater.cli.progress import Waiting

if TYPE_CHECKING:
    from headwater.views.folding.state import Change, State

SHOWN = 20


def add_to(app: typer.Typer) -> None:
    app.command("state")(state)


def state(
    topic: str = typer.Argument(
        ...,
        metavar="TOPIC",
        help="A topic of changes, or of plain rows.",
        autocompletion=topic_names,
    ),
    key: str = typer.Argument(
        ..., metavar="KEY", help="The key; of a JSON key with one field, its value will do."
    ),
    as_of: str | None = typer.Option(
        None,
        "--as-of",
        metavar="TIME|OFFSET",
        help="A time (2026-11-15T15:00, UTC), or the last offset to count (17, or 2:17 with the "
        "partition); without it, now.",
    ),
    is_hex: bool = typer.Option(
        False, "--hex", help="KEY is hexadecimal, for one that is no text."
    ),
    everywhere: bool = typer.Option(
        False, "--all-partitions", help="Look in every partition, not only where the key belongs."
    ),
    limit: int = typer.Option(
        SHOWN, "--limit", min=0, metavar="COUNT", help="Show the last so many changes; 0: all."
    ),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Fold one key's changes up to a moment.

    Understands Debezium's envelope (JSON, Avro), plain rows and tombstones. Reads the one partition in which
    Kafka's partitioner puts the key, and the others only if the key is not there.

    Example: headwater state shop.orders 17 --as-of 2026-11-15T15:00
    """
    wanted = _key(key, is_hex)
    from headwater.browse.state import state_of

    with opened(bootstrap) as log, Waiting(f"reading {topic}"):
        found = state_of(log, topic, wanted, as_of, everywhere=everywhere)
    if as_json:
        print_json(_as_json(found, limit))
    else:
        _print(found, limit)


def _key(text: str, is_hex: bool) -> str | bytes:
    try:
        return bytes.fromhex(text) if is_hex else text
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not hexadecimal", param_hint="'KEY'") from None


def _as_json(found: State, limit: int) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "key": found.key,
        "exists": found.exists,
        "state": found.row,
        "changes": [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "op": each.op,
                "state": each.row,
                "changed": each.changed,
            }
            for each in found.changes[-limit:]
        ],
        "changes_in_all": len(found.changes),
        "read": {str(p): {"from": start, "to": end} for p, (start, end) in found.read.items()},
        "note": found.note,
    }


def _print(found: State, limit: int) -> None:
    last = found.changes[-1]
    if found.exists:
        print(json.dumps(found.row, ensure_ascii=False))
    else:
        print(f"No row: deleted at {last.partition}:{last.offset}")
    shown = found.changes[-limit:]
    earlier = len(found.changes) - len(shown)
    print(f"\n{len(found.changes):,} change{'' if len(found.changes) == 1 else 's'}", end="")
    print(f", the last {len(shown):,} of them" if earlier else "")
    heads = ["PARTITION", "OFFSET", "TIME", "OP", "CHANGE"]
    print_table(heads, [_row(each) for each in shown])
    if found.note:
        print(f"\n{found.note}")


def _row(each: Change) -> list[object]:
    at = datetime.fromtimestamp(each.timestamp_ms / 1000, UTC)
    time = f"{at:%Y-%m-%d %H:%M:%S}.{each.timestamp_ms % 1000:03d}"
    return [each.partition, str(each.offset), time, each.op, _change(each)]


def _change(each: Change) -> str:
    if each.row is None:
        return "deleted" if each.changed else "-"
    parts = []
    for name, (old, new) in each.changed.items():
        value = _short(new) if old is None else f"{_short(old)} → {_short(new)}"
        parts.append(f"{name}={value}" if name else value)
    return ", ".join(parts) or "nothing"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 30 else text[:29] + "…"
