"""`headwater topics`: look at the topics of a running log, and make, change or delete them.

Each subcommand is one question to the broker through `admin`, and one answer as a table or JSON.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    admin,
    bootstrap_option,
    json_option,
    opened,
    print_json,
    print_table,
)
from headwater.cli.completion import topic_names
from headwater.cli.properties import parse_assignments
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient
    from headwater.client.topics import Topic

PARTITIONS_MAX = 100_000
"""The client library takes no more."""
topics = typer.Typer(no_args_is_help=True, help="List, create, describe, alter, delete topics.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(topics, name="topics")


def _name_argument() -> Any:
    return typer.Argument(metavar="NAME", help="The topic's name.", autocompletion=topic_names)


def _settings(assignments: list[str]) -> dict[str, str]:
    try:
        return parse_assignments(assignments)
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}, for example --set retention.ms=86400000", param_hint="'--set'"
        ) from None


def _existing(client: AdminClient, name: str) -> Any:
    # Asked for by listing: a metadata request for one name might create it.
    topic = client.list_topics(timeout=TIMEOUT_S).topics.get(name)
    if topic is None:
        raise RequestRefused(
            f"there is no topic {name!r}", hint="headwater topics list shows those that exist"
        )
    return topic


@topics.command("list")
def list_(
    internal: bool = typer.Option(False, "--internal", help="Show the log's own topics too."),
    long: bool = typer.Option(False, "--long", "-l", help="Show bytes, cleanup and retention too."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """List topics: partitions, and offsets held; with --long also bytes, cleanup and retention.

    Example: headwater topics list --long
    """
    from headwater.client.topics import listed

    with opened(bootstrap) as log:
        found = listed(log, internal=internal, details=long)
    rows = [_row(each, long) for each in found]
    if as_json:
        print_json(rows)
    elif rows:
        heads = [name.removesuffix("_ms").upper() for name in rows[0]]
        print_table(heads, [_cells(row) for row in rows])
    else:
        print("No topics yet; make one with: headwater topics create NAME")


def _row(topic: Topic, long: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "offsets": topic.offsets,
    }
    if long:
        cleanup = topic.settings.get("cleanup.policy")
        row["bytes"] = topic.bytes
        row["cleanup"] = "delete" if cleanup is None else cleanup.value
        row["retention_ms"] = topic.retention_ms
    return row


def _cells(row: dict[str, Any]) -> list[object]:
    cells = {**row}
    if "retention_ms" in row:
        cells["bytes"] = "?" if row["bytes"] is None else row["bytes"]
        cells["retention_ms"] = _duration(row["retention_ms"])
    return list(cells.values())


def _duration(ms: int | None) -> str:
    if ms is None:
        return "for ever"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms:,} ms"


@topics.command("create")
def create(
    name: str = typer.Argument(metavar="NAME", help="The topic's name."),
    partitions: int | None = typer.Option(
        None,
        "--partitions",
        min=1,
        max=PARTITIONS_MAX,
        metavar="COUNT",
        help="How many partitions; without it, the broker's num.partitions.",
    ),
    assignments: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="A setting of the topic; may be given again."
    ),
    if_missing: bool = typer.Option(
        False, "--if-missing", help="Succeed where the topic exists already; it is not changed."
    ),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Create a topic.

    Example: headwater topics create orders --partitions 4 --set cleanup.policy=compact
    """
    settings = _settings(assignments)
    from headwater.client.topics import create as make

    with admin(bootstrap) as client:
        if not make(client, name, partitions or -1, settings, if_missing=if_missing):
            print(f"Topic {name} exists already")
            return
    print(f"Created topic {name}")


@topics.command("describe")
def describe(
    name: str = _name_argument(),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show a topic's partitions, with offsets and bytes, and its own settings.

    Example: headwater topics describe orders --json
    """
    from headwater.client.topics import named

    with opened(bootstrap) as log:
        found = named(log, name)
    own = {each: setting.value for each, setting in found.settings.items() if setting.is_own}
    partitions = [
        {
            "partition": each.number,
            "leader": each.leader,
            "first_offset": each.first_offset,
            "next_offset": each.next_offset,
            "bytes": each.bytes,
        }
        for each in found.partitions
    ]
    if as_json:
        print_json({"topic": name, "partitions": partitions, "settings": own})
        return
    print(f"Topic {name}, {len(partitions)} partition{'s' if len(partitions) != 1 else ''}")
    for setting, value in sorted(own.items()):
        print(f"  {setting}={value}")
    cells: list[list[object]] = [
        ["?" if cell is None else cell for cell in each.values()] for each in partitions
    ]
    print_table(["PARTITION", "LEADER", "FIRST OFFSET", "NEXT OFFSET", "BYTES"], cells)


@topics.command("alter")
def alter(
    name: str = _name_argument(),
    partitions: int | None = typer.Option(
        None,
        "--partitions",
        min=1,
        max=PARTITIONS_MAX,
        metavar="COUNT",
        help="Grow to this many partitions.",
    ),
    assignments: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Give a setting a value; may be given again."
    ),
    unset: list[str] = typer.Option(
        [], "--unset", metavar="NAME", help="Return a setting to its default; may be given again."
    ),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Add partitions to a topic, or change settings.

    Example: headwater topics alter orders --partitions 8 --set retention.ms=86400000
    """
    settings = _settings(assignments)
    if partitions is None and not settings and not unset:
        raise typer.BadParameter("nothing to alter: give --partitions, --set or --unset")
    from headwater.client.settings import alter_topic
    from headwater.client.topics import grow

    with admin(bootstrap) as client:
        _existing(client, name)
        if settings or unset:
            alter_topic(client, name, settings, unset)
        if partitions is not None:
            grow(client, name, partitions)
    print(f"Altered topic {name}")


@topics.command("delete")
def delete(
    names: list[str] = typer.Argument(
        metavar="NAME...", help="The topics' names.", autocompletion=topic_names
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Delete topics with all their records.

    Example: headwater topics delete orders --yes
    """
    with admin(bootstrap) as client:
        for name in names:
            _existing(client, name)
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("nobody is there to be asked; say --yes to delete")
            typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True)
        futures = client.delete_topics(names, request_timeout=TIMEOUT_S)
        for name in names:
            futures[name].result()
            print(f"Deleted topic {name}")
