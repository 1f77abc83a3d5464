"""`headwater import`: topics of another cluster with their offsets, or a connector as a section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import json_option, print_json
from headwater.cli.properties import client_config, read_settings
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.project.connect.section import Outcome
    from headwater.project.promote.arrival import Arrived


def add_to(app: typer.Typer) -> None:
    app.command("import")(import_command)


def import_command(
    file: Path | None = typer.Argument(
        None, metavar="[FILE]", help="JSON or .properties of one connector."
    ),
    source: str | None = typer.Option(
        None, "--from", metavar="HOST:PORT", help="Another cluster, whose topics to bring here."
    ),
    topic: list[str] = typer.Option(
        ["*"], "--topic", metavar="NAME", help="With --from: which; * and ? stand for others."
    ),
    source_config: Path | None = typer.Option(
        None, "--from-config", metavar="FILE", help="How to reach it: librdkafka's settings."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="With --from: only say what would be."),
    write: bool = typer.Option(False, "--write", help="Add the sections to headwater.toml."),
    project: Path = typer.Option(
        Path("headwater.toml"), "--file", metavar="PATH", help="The project's file."
    ),
    as_json: bool = json_option(),
) -> None:
    """Bring topics of another cluster here, or turn a Kafka Connect connector into a section.

    With --from, topics are copied into the project's running log with every offset, time and header as it
    is there, compared record by record, and consumer groups get their positions. The other cluster may be
    in use: run it again to bring what has come since. What has no counterpart is said.

    With FILE, Debezium's source connectors (PostgreSQL, MySQL, MariaDB, MongoDB) become captures, JDBC and
    Elasticsearch or OpenSearch sinks become views with a pipeline; without --write it only shows.

    Example: headwater import --from kafka-1:9092 --topic 'orders*' --dry-run
    """
    if (file is None) == (source is None):
        raise typer.BadParameter("give a connector's FILE, or --from with another cluster")
    if source is not None:
        _import_topics(source, source_config, topic, project, dry_run=dry_run)
    elif file is not None:
        _import_connector(file, project, write=write, as_json=as_json)


def _import_topics(
    source: str, config: Path | None, topics: list[str], file: Path, *, dry_run: bool
) -> None:
    from headwater.cli.demo_view import audience_for
    from headwater.project.file import load
    from headwater.project.promote.arrival import Arrival, Order

    project = load(file.absolute())
    there = {**(read_settings(config) if config else {}), "bootstrap.servers": source}
    here = {**client_config(), "bootstrap.servers": project.address}
    order = Order(project.folder, there, here, tuple(topics), dry_run)
    with audience_for(quiet=False) as audience:
        arrived = Arrival(order, audience).run()
    for sentence in _sentences(arrived, source, dry_run=dry_run):
        print(sentence)


def _sentences(arrived: Arrived, source: str, *, dry_run: bool) -> list[str]:
    counted = arrived.counted
    if dry_run:
        said = [
            f"\nWould bring {counted.records:,} records ({counted.bytes / 1e6:,.1f} MB) of "
            f"{arrived.topics} topics from {source}, with {counted.gaps:,} offsets without a record and "
            f"{counted.before:,} before the logs' starts, and positions of {arrived.groups} groups.",
            "Nothing has been changed.",
        ]
    else:
        said = [
            f"\nFrom {source}: {arrived.topics} topics, {arrived.partitions} partitions, "
            f"{arrived.compared.records:,} records the same at the same offsets; {arrived.groups} groups."
        ]
    if arrived.continued and not dry_run:
        said.append(
            f"Went on with what an earlier run had brought: {', '.join(arrived.continued)}."
        )
    if arrived.afresh:
        said.append(f"Begun afresh, as an earlier run broke off: {', '.join(arrived.afresh)}.")
    if arrived.ahead:
        said.append(f"Further here than there, and left as they are: {', '.join(arrived.ahead)}.")
    for topic, names in arrived.unknown_settings.items():
        said.append(f"Settings of {topic} without a counterpart: {', '.join(names)}.")
    if arrived.share_groups:
        said.append(
            f"Share groups are not brought: {', '.join(arrived.share_groups)}; let them begin where they "
            "should: headwater groups reset."
        )
    if arrived.reserved:
        said.append("_schemas is the registry's here: headwater schemas import brings it.")
    for kind, names in arrived.left_behind.items():
        said.append(f"Not brought, make them here: {kind}: {', '.join(names)}.")
    return said


def _import_connector(file: Path, project: Path, *, write: bool, as_json: bool) -> None:
    outcome = imported(file)
    if write:
        added(outcome, project)
    if as_json:
        print_json(outcome.as_json())
        return
    print(outcome.toml().strip())
    if outcome.pipeline:
        print(f"\n# a file in pipelines/\n{outcome.pipeline.rstrip()}")
    print("\nTo know:")
    for note in outcome.notes:
        print(f"- {note}")
    if write:
        print(f"\nAdded to {project}; headwater doctor looks at it.")


def imported(path: Path) -> Outcome:
    """What a connector's file becomes. Raises NotUnderstood."""
    from headwater.project.connect import sinks, sources
    from headwater.project.connect.configuration import FILE_BYTES_MAX, NotUnderstood, read

    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise NotUnderstood(
            f"{path} cannot be read: {error.strerror}", hint="name the connector's file"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise NotUnderstood(
            f"{path} has more than {FILE_BYTES_MAX:,} bytes", hint="give the file of one connector"
        )
    configuration = read(data.decode("utf-8", "replace"), path.stem)
    kind = configuration.kind
    if kind in sources.KINDS:
        return sources.capture_of(configuration)
    if kind in sinks.KINDS:
        return sinks.view_of(configuration)
    raise NotUnderstood(
        f"{kind} has no counterpart",
        hint=f"these have one: {', '.join(sorted(sources.KINDS | sinks.KINDS))}",
    )


def added(outcome: Outcome, project: Path) -> None:
    """Write the sections behind what the project's file has. Raises HeadwaterError where one is there."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        text = project.read_text(encoding="utf-8")
    except OSError as error:
        raise HeadwaterError(
            f"{project} cannot be read: {error.strerror}",
            hint="headwater init makes a project; --file names another file",
        ) from error
    try:
        known = tomlkit.parse(text)
    except TOMLKitError as error:
        raise HeadwaterError(
            f"{project} is no TOML: {error}", hint="put that right first"
        ) from error
    for name in outcome.sections:
        kind, _, rest = name.partition(".")
        if rest in known.get(kind, {}):
            raise HeadwaterError(
                f"{project} has a [{name}] already", hint="take it out, or rename one of the two"
            )
    whole = f"{text.rstrip()}\n\n{outcome.toml().strip()}\n"
    try:
        tomlkit.parse(whole)
    except TOMLKitError as error:
        raise HeadwaterError(
            f"{project} would be no TOML with the new sections: {error}",
            hint="write its sections as [views.NAME] and [capture.NAME], then try again",
        ) from error
    project.write_text(whole, encoding="utf-8")
