"""`headwater topics`: look at the topics of a running log, and make, change or delete them.

Each subcommand is one question to the broker through `admin`, and one answer as a table or JSON.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    RequestRefused,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.properties import parse_assignments

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

topics = typer.Typer(no_args_is_help=True, help="List, create, describe, alter, delete topics.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(topics, name="topics")


def _settings(assignments: list[str]) -> dict[str, str]:
    try:
        return parse_assignments(assignments)
    except ValueError as error:
        raise typer.BadParameter(
            f"{error}, for example --set retention.ms=86400000", param_hint="'--set'"
        ) from None


def _offsets(client: AdminClient, partitions: dict[str, list[int]]) -> dict[tuple[str, int], Any]:
    """(topic, partition) -> (first offset, next offset), asked for all at once."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    wanted = [TopicPartition(name, number) for name, all_ in partitions.items() for number in all_]
    if not wanted:
        return {}
    ends = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        futures = client.list_offsets(dict.fromkeys(wanted, spec), request_timeout=TIMEOUT_S)
        ends.append({(p.topic, p.partition): f.result().offset for p, f in futures.items()})
    return {place: (ends[0][place], ends[1][place]) for place in ends[0]}


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
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """List topics: partitions, and offsets held."""
    with admin(bootstrap) as client:
        known = client.list_topics(timeout=TIMEOUT_S).topics
        shown = {
            name: sorted(topic.partitions)
            for name, topic in sorted(known.items())
            if internal or not name.startswith("__")
        }
        offsets = _offsets(client, shown)
    rows = [
        {
            "topic": name,
            "partitions": len(numbers),
            "offsets": sum(offsets[name, n][1] - offsets[name, n][0] for n in numbers),
        }
        for name, numbers in shown.items()
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["TOPIC", "PARTITIONS", "OFFSETS"], [list(row.values()) for row in rows])
    else:
        print("No topics yet; make one with: headwater topics create NAME")


@topics.command("create")
def create(
    name: str = typer.Argument(metavar="NAME", help="The topic's name."),
    partitions: int | None = typer.Option(
        None,
        "--partitions",
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
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    with admin(bootstrap) as client:
        topic = NewTopic(
            name, num_partitions=partitions or -1, replication_factor=1, config=settings
        )
        try:
            client.create_topics([topic], request_timeout=TIMEOUT_S)[name].result()
        except KafkaException as failure:
            if not (if_missing and failure.args[0].name() == "TOPIC_ALREADY_EXISTS"):
                raise
            print(f"Topic {name} exists already")
            return
    print(f"Created topic {name}")


@topics.command("describe")
def describe(
    name: str = typer.Argument(metavar="NAME", help="The topic's name."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show a topic's partitions and own settings."""
    from confluent_kafka.admin import ConfigResource, ConfigSource

    with admin(bootstrap) as client:
        topic = _existing(client, name)
        offsets = _offsets(client, {name: sorted(topic.partitions)})
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        entries = client.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result()
    own = {
        entry.name: entry.value
        for entry in entries.values()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }
    partitions = [
        {
            "partition": number,
            "leader": topic.partitions[number].leader,
            "first_offset": offsets[name, number][0],
            "next_offset": offsets[name, number][1],
        }
        for number in sorted(topic.partitions)
    ]
    if as_json:
        print_json({"topic": name, "partitions": partitions, "settings": own})
        return
    print(f"Topic {name}, {len(partitions)} partition{'s' if len(partitions) != 1 else ''}")
    for setting, value in sorted(own.items()):
        print(f"  {setting}={value}")
    print_table(
        ["PARTITION", "LEADER", "FIRST OFFSET", "NEXT OFFSET"],
        [list(p.values()) for p in partitions],
    )


@topics.command("alter")
def alter(
    name: str = typer.Argument(metavar="NAME", help="The topic's name."),
    partitions: int | None = typer.Option(
        None, "--partitions", min=1, metavar="COUNT", help="Grow to this many partitions."
    ),
    assignments: list[str] = typer.Option(
        [], "--set", metavar="NAME=VALUE", help="Give a setting a value; may be given again."
    ),
    unset: list[str] = typer.Option(
        [], "--unset", metavar="NAME", help="Return a setting to its default; may be given again."
    ),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Add partitions to a topic, or change settings."""
    settings = _settings(assignments)
    if partitions is None and not settings and not unset:
        raise typer.BadParameter("nothing to alter: give --partitions, --set or --unset")
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
    )

    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset]
    with admin(bootstrap) as client:
        _existing(client, name)
        if changes:
            resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
            client.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)[
                resource
            ].result()
        if partitions is not None:
            more = NewPartitions(name, partitions)
            client.create_partitions([more], request_timeout=TIMEOUT_S)[name].result()
    print(f"Altered topic {name}")


@topics.command("delete")
def delete(
    names: list[str] = typer.Argument(metavar="NAME...", help="The topics' names."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Delete topics with all their records."""
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
