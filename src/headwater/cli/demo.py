"""`headwater demo`: the whole log at work on this machine, in a few seconds.

Reads the words, runs `project.demo` before an audience (progress bars on a terminal, one line per
step elsewhere), prints the summary, and leaves with 0 only if everything matched.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import json_option, print_json

if TYPE_CHECKING:
    from headwater.project.demo import Summary

MISMATCH = 1


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    records: int = typer.Option(
        200_000, "--records", min=2, metavar="COUNT", help="How many records to write."
    ),
    seconds: float | None = typer.Option(
        None, "--seconds", min=0.1, metavar="TIME", help="Write for so long instead."
    ),
    data: Path | None = typer.Option(
        None,
        "--data",
        metavar="DIR",
        help="Keep the log in this folder; without it, in a temporary one that is removed.",
    ),
    durability: str = typer.Option(
        "disk", "--durability", metavar="disk|os", help="As for headwater broker."
    ),
    spark: bool = typer.Option(
        True, "--spark/--no-spark", help="Read the log with PySpark too, where it is installed."
    ),
    shop: bool = typer.Option(
        True, "--shop/--no-shop", help="Capture a database and keep views of it; needs Spark."
    ),
    as_json: bool = json_option(),
) -> int:
    """Write, kill -9, restart, replay, process and verify, with a summary.

    Starts a broker, writes records of 100 bytes to a topic, kills the broker half-way with the
    producer still writing, starts it again, reads everything back from offset 0 and compares it
    with what was acknowledged. PySpark then reads the same log and derives a topic from it,
    exactly once. At last a SQLite database is captured, three views follow it (SQLite, search,
    DuckDB) while it is written to and the broker is killed, and every row is compared. The exit
    code is 0 only if all of it matched.

    Example: headwater demo --seconds 10 --data data/demo
    """
    if durability not in ("disk", "os"):
        raise typer.BadParameter(f"{durability!r} is not one of disk, os")
    from headwater.cli.demo_view import audience_for, print_summary
    from headwater.project.demo import Plan, run

    with ExitStack() as cleanup:
        if data is None:
            temporary = tempfile.TemporaryDirectory(prefix="headwater-demo-")
            folder = Path(cleanup.enter_context(temporary))
        else:
            folder = data
        plan = Plan(
            data=folder,
            # A name of its own, so that a second demo in the same folder meets an empty topic.
            topic=time.strftime("demo-%Y%m%d-%H%M%S"),
            records=records,
            seconds=seconds,
            durability=durability,
            spark=spark,
            shop=shop,
            shop_seconds=10.0 if seconds is None else seconds,
        )
        audience = cleanup.enter_context(audience_for(quiet=as_json))
        summary: Summary = run(plan, audience)
    if as_json:
        print_json({**summary.as_json(), "data": str(data) if data is not None else None})
    else:
        print_summary(summary, kept=data is not None)
    return 0 if summary.verified else MISMATCH
