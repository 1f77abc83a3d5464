"""`headwater replay`: a range of a topic's records into another topic, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json
from headwater.cli.interrupt import ctrl_c
from headwater.cli.progress import Bar
from headwater.cli.record_words import (
    PLACES,
    filter_of,
    grep_option,
    key_option,
    partition_option,
    topic_argument,
    where_option,
)

if TYPE_CHECKING:
    from headwater.browse.replay import Plan
    from headwater.client.log import Log
    from headwater.client.records import Keep


def add_to(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    source: str = topic_argument("SOURCE", "The topic to read."),
    target: str = topic_argument("TARGET", "The topic to write; it must exist."),
    start: str = typer.Option("beginning", "--from", metavar="PLACE", help=f"Begin at: {PLACES}."),
    until: str = typer.Option(
        "end", "--until", metavar="PLACE", help="Stop before this place; the same words."
    ),
    partition: list[int] = partition_option(),
    key: str | None = key_option(),
    grep: str | None = grep_option(),
    where: list[str] = where_option(),
    batch: int | None = typer.Option(
        None,
        "--batch",
        min=1,
        metavar="COUNT",
        help="A transaction for each so many records, instead of one for all.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only count what would be replayed."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Write a range of a topic's records again into another topic.

    Keys, values, headers and timestamps stay as they are, and so does the partition if both topics have as
    many. It is one transaction: readers of TARGET see all or nothing, and Ctrl-C leaves nothing. What takes
    longer than 15 minutes needs --batch; if that fails, it says from where to go on.

    Example: headwater replay orders orders-again --from 2026-11-15T15:00 --until -1h
    """
    from headwater.browse.decoder import Decoder
    from headwater.browse.replay import plan
    from headwater.client.places import parse

    places = parse(start), parse(until)
    wanted = filter_of(key, grep, where)
    with opened(bootstrap) as log:
        keep = wanted.compiled(Decoder(log))
        planned = plan(log, source, target, *places, partition or None)
        count = _counted(log, planned, keep) if dry_run else _run(log, planned, keep, batch)
    if as_json:
        print_json(
            {
                "source": source,
                "target": target,
                "records": count,
                "looked_at": planned.offsets,
                "applied": not dry_run,
            }
        )
        return
    records = f"{count:,} record{'' if count == 1 else 's'}"
    words = "would be replayed from" if dry_run else "replayed from"
    print(f"{records} {words} {source} into {target} ({planned.offsets:,} offsets looked at)")


def _run(log: Log, planned: Plan, keep: Keep | None, batch: int | None) -> int:
    from headwater.browse.replay import replay as run

    with Bar(f"replaying {planned.source}", "offsets") as bar, ctrl_c() as pressed:
        done = run(
            log,
            planned,
            keep,
            batch=batch,
            progress=lambda looked, total, sent: bar.show(looked, total, f"{sent:,} replayed"),
            stopped=pressed,
        )
    return done.records


def _counted(log: Log, planned: Plan, keep: Keep | None) -> int:
    from headwater.client.log import SCAN_BYTES
    from headwater.client.ranges import read

    looked = count = 0
    with Bar(f"reading {planned.source}") as bar:
        for records in read(log, planned.source, planned.ranges, SCAN_BYTES):
            looked += len(records)
            count += len(records) if keep is None else sum(map(keep, records))
            bar.show(looked, planned.offsets, f"{count:,} are meant")
    return count
