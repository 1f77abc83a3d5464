"""`headwater excise`: take the records of one key, or a range of offsets, out of the log permanently."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.completion import topic_names
from headwater.cli.excision import ask, beside_the_log, target_of, topic_id_of
from headwater.cli.progress import Waiting
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient


def add_to(app: typer.Typer) -> None:
    app.command("excise")(excise)


def excise(
    topic: str = typer.Argument(
        ...,
        metavar="TOPIC",
        help="The topic to take records out of.",
        autocompletion=topic_names,
    ),
    key: str | None = typer.Option(None, "--key", metavar="K", help="Records with this key."),
    key_hex: str | None = typer.Option(
        None, "--key-hex", metavar="HEX", help="The same for a key that is no text."
    ),
    offsets: str | None = typer.Option(
        None,
        "--offsets",
        metavar="PARTITION:FIRST-LAST",
        help="Records of one partition, from the first offset to the last.",
    ),
    why: str = typer.Option("", "--why", metavar="TEXT", help="Reason, for the audit record."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only count what would go."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    seconds: int = typer.Option(600, "--seconds", help="How long to wait for the end."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Delete records permanently: from every segment, closed and active.

    All other records keep their offsets. An audit record (who, when, what, why; not the data)
    is kept. Interrupted at any point it goes on when the broker starts again.

    Example: headwater excise orders --key customer-17 --why "asked to be forgotten"
    """
    target, partitions = target_of(key, key_hex, offsets)
    with admin(bootstrap) as client:
        topic_id = topic_id_of(client, topic)
        beside = _beside(client, topic)
        if not (dry_run or yes):
            _confirm(topic)
        wanted = {"topic": topic, "topic_id": topic_id, "target": target, "partitions": partitions}
        with Waiting(f"the broker looks through {topic}"):
            entry = ask(bootstrap, {**wanted, "dry_run": dry_run, "why": why}, seconds)
    _show(entry | {"not_excised": beside}, as_json)
    return 0 if entry["status"] == "done" else 1


def _beside(client: AdminClient, topic: str) -> list[str]:
    """Topics that hold what derives from this one. Snapshots of events that stay must stay too."""
    from headwater.events import derived_topics

    known = client.list_topics(timeout=TIMEOUT_S).topics
    source = derived_topics.source_of(topic, known)
    if source is not None and topic.endswith(".snapshots"):
        raise RequestRefused(
            f"{topic} without a record would be read as if {source} had no such events",
            hint=f"headwater forget SUBJECT --excise {source} takes both",
        )
    return derived_topics.topics_of(topic, known)


def _confirm(topic: str) -> None:
    if not sys.stdin.isatty():
        raise RequestRefused(
            f"records of {topic} would be deleted permanently",
            hint="say --yes, or look first with --dry-run",
        )
    typer.confirm(f"Permanently delete these records of {topic}?", abort=True)


def _show(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    if entry["status"] != "done":
        raise RequestRefused(entry["error"])
    rows: list[list[object]] = [
        [int(number), count] for number, count in entry["partitions"].items()
    ]
    print_table(["partition", "found" if entry["dry_run"] else "removed"], rows)
    one = entry["removed"] == 1
    fate = "would go" if entry["dry_run"] else "is gone" if one else "are gone"
    print(f"{entry['removed']:,} record{'' if one else 's'} {fate}.")
    if entry.get("copies"):
        print(beside_the_log(entry["copies"], entry["copies_count"]))
    if entry["not_excised"]:
        left = ", ".join(entry["not_excised"])
        print(f"Not touched: {left}; `headwater forget` with --excise takes these too.")
