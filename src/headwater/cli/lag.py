"""`headwater lag`: how far consumer groups are behind, once or again and again, with an alarm."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json, print_table
from headwater.cli.completion import group_names, topic_names

if TYPE_CHECKING:
    from headwater.client.groups import Group
    from headwater.client.log import Log

ABOVE = 3
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def add_to(app: typer.Typer) -> None:
    app.command("lag")(lag)


def lag(
    names: list[str] = typer.Argument(
        None,
        metavar="[GROUP]...",
        help="Which groups; none: all.",
        autocompletion=group_names,
        show_default=False,
    ),
    topic: list[str] = typer.Option(
        [],
        "--topic",
        metavar="TOPIC",
        help="Only this topic; may be given again.",
        autocompletion=topic_names,
    ),
    partitions: bool = typer.Option(False, "--partitions", help="A line for each partition."),
    alert: int | None = typer.Option(
        None, "--alert", min=0, metavar="COUNT", help="Exit code 3 if a group is further behind."
    ),
    watch: bool = typer.Option(
        False, "--watch", help="Look again and again, until Ctrl-C or the alarm of --alert."
    ),
    every: float = typer.Option(
        2.0, "--every", min=0.1, metavar="SECONDS", help="How often, with --watch."
    ),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Show how many records each group has not read yet.

    Lag is counted from the committed offset to the topic's end; where nothing is committed there is none to
    tell. With --alert the exit code is 3 as soon as a group is further behind than that.

    Example: headwater lag billing --watch --alert 10000
    """
    with opened(bootstrap) as log:
        try:
            while True:
                rows = _rows(_groups(log, list(names or [])), topic, partitions)
                _show(rows, partitions, alert, as_json=as_json, again=watch)
                above = [r for r in rows if alert is not None and (r["lag"] or 0) > alert]
                if above:
                    _alarm(above[0], alert)
                    return ABOVE
                if not watch:
                    return 0
                time.sleep(every)
        except KeyboardInterrupt:
            return 0  # the way to end --watch


def _groups(log: Log, names: list[str]) -> list[Group]:
    from headwater.client import groups

    return [groups.named(log, name) for name in names] if names else groups.listed(log)


def _rows(found: list[Group], topics: list[str], each_partition: bool) -> list[dict[str, Any]]:
    """One for each group and topic, or for each partition."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in found:
        for each in group.partitions:
            if topics and each.topic not in topics:
                continue
            place = (group.name, each.topic, *([each.partition] if each_partition else []))
            row: dict[str, Any] = rows.setdefault(
                place, {"group": group.name, "topic": each.topic, "lag": None}
            )
            if each_partition:
                row.update(partition=each.partition, committed=each.committed, end=each.end)
            if each.lag is not None:
                row["lag"] = (row["lag"] or 0) + each.lag
    return list(rows.values())


def _show(
    rows: list[dict[str, Any]],
    each_partition: bool,
    alert: int | None,
    *,
    as_json: bool,
    again: bool,
) -> None:
    if as_json:
        if again:
            print(json.dumps(rows), flush=True)
        else:
            print_json(rows)
        return
    if again and sys.stdout.isatty():
        print("\x1b[2J\x1b[H", end="")
    names = [
        "group",
        "topic",
        *(["partition", "committed", "end"] if each_partition else []),
        "lag",
    ]
    if rows:
        cells = [["-" if row[name] is None else row[name] for name in names] for row in rows]
        print_table([name.upper() for name in names], cells)
    else:
        print("No group has committed an offset")
    sys.stdout.flush()


def _alarm(row: dict[str, Any], alert: int | None) -> None:
    where = f"{row['topic']}:{row['partition']}" if "partition" in row else row["topic"]
    words = f"headwater: {row['group']} is {row['lag']:,} behind in {where}, more than {alert:,}"
    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    print(f"{_RED}{words}{_PLAIN}" if red else words, file=sys.stderr)
