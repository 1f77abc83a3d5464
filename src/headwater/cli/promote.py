"""`headwater promote`: from the project's own log to Apache Kafka, from this machine to a Spark cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.properties import client_config
from headwater.cli.up import file_option

if TYPE_CHECKING:
    from headwater.project.promote.job import Report


def add_to(app: typer.Typer) -> None:
    app.command("promote")(promote)


def promote(
    kafka: str = typer.Option(
        ..., "--kafka", metavar="HOST:PORT", help="Apache Kafka; several with commas."
    ),
    spark: str | None = typer.Option(
        None,
        "--spark",
        metavar="spark://…",
        help="Where Spark runs from then on: spark://HOST:7077, sc://HOST:15002; else as before.",
    ),
    replication_factor: int = typer.Option(
        -1, "--replication-factor", min=-1, help="Of the topics in Kafka; -1: Kafka's default."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say what would be done; change nothing."
    ),
    file: Path = file_option(),
) -> int:
    """Move the project to Apache Kafka: every record at the offset it has, groups, settings.

    The project must not be running. Topics are copied with offsets, times and headers, compared record by
    record, and only then the two addresses in headwater.toml are changed (comments stay; the old file is
    kept beside it). Queries and views go on where they were. A move that was interrupted is done again with
    the same words, and goes on.

    Example: headwater promote --kafka kafka-1:9092 --spark spark://master:7077 --dry-run
    """
    from headwater.cli.demo_view import audience_for
    from headwater.project.file import load
    from headwater.project.promote.job import Order
    from headwater.project.promote.job import promote as move

    if spark is not None and not spark.startswith(("spark://", "sc://", "local", "yarn", "k8s://")):
        raise typer.BadParameter(f"{spark!r} is no master of Spark, as in spark://HOST:7077")
    order = Order(
        project=load(file.absolute()),
        kafka=kafka,
        spark=spark,
        client=client_config(),
        replicas=replication_factor,
        dry_run=dry_run,
    )
    with audience_for(quiet=False) as audience:
        report = move(order, audience)
    for sentence in _sentences(report, order.kafka, dry_run=dry_run):
        print(sentence)
    return 0


def _about_times(topics: list[str]) -> list[str]:
    what = "The time that the broker gave a record stays what it was, but reads as its producer's"
    return [f"{what} (CreateTime): {', '.join(topics)}."] if topics else []


def _sentences(report: Report, kafka: str, *, dry_run: bool) -> list[str]:
    counted, said = report.counted, list[str]()
    if dry_run:
        said.append(
            f"\nWould copy {counted.records:,} records ({counted.bytes / 1e6:,.1f} MB) of {report.topics} "
            f"topics to {kafka}, {counted.aborted:,} of them in aborted transactions, and keep "
            f"{counted.gaps:,} offsets without a record and {counted.before:,} before the logs' starts."
        )
        said.append("Nothing has been changed.")
    else:
        said.append(
            f"\nMoved to {kafka}: {report.topics} topics, {report.partitions} partitions, "
            f"{report.compared.records:,} records the same at the same offsets; {report.groups} groups; "
            f"{report.queries} checkpoints."
        )
    if report.continued and not dry_run:
        said.append(f"Went on with what an earlier run had begun: {', '.join(report.continued)}.")
    if report.removed:
        said.append(f"Removed from Kafka, as it is no longer here: {', '.join(report.removed)}.")
    if report.afresh:
        said.append(f"Begun afresh, as an earlier run broke off: {', '.join(report.afresh)}.")
    for topic, names in report.unknown_settings.items():
        said.append(f"Kafka does not know these settings of {topic}: {', '.join(names)}.")
    said += _about_times(sorted(set(counted.append_timed)))
    if report.share_groups:
        said.append(
            f"Share groups are not moved: {', '.join(report.share_groups)} begin where Kafka's "
            "share.auto.offset.reset says, by default at the end, and skip what they had not settled; "
            "first let them begin where they should: headwater groups reset."
        )
    for kind, names in report.left_behind.items():
        said.append(f"Not moved, make them in Kafka: {kind}: {', '.join(names)}.")
    if report.backup is not None:
        said.append(
            f"headwater.toml has the new addresses; the old file is {report.backup.name}. "
            "Start it as before: headwater up. The old log is still there; remove it when you like."
        )
    return said
