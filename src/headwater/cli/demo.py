"""`headwater demo`: the log, then a whole project on it, at work on this machine.

Reads the words, runs `project.demo` before an audience (progress bars on a terminal, one line per
step elsewhere), prints the summary, and leaves with 0 only if everything matched.
"""

from __future__ import annotations

import os
import signal
import sys
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
        200_000, "--records", min=2, metavar="COUNT", help="How many records to write to the log."
    ),
    seconds: float = typer.Option(
        30.0, "--seconds", min=0.1, metavar="TIME", help="How long to write to the shop's database."
    ),
    database: str | None = typer.Option(
        None,
        "--database",
        metavar="postgresql://…",
        help="A PostgreSQL server for the shop, which makes a database of its own there; "
        "without it, a SQLite file.",
    ),
    data: Path | None = typer.Option(
        None,
        "--data",
        metavar="DIR",
        help="Keep the log and the project in this folder; without it, in a temporary one that is "
        "removed.",
    ),
    durability: str = typer.Option(
        "disk", "--durability", metavar="disk|os", help="As for headwater broker, of the log alone."
    ),
    shop: bool = typer.Option(
        True, "--shop/--no-shop", help="The shop as well, or the log alone; the shop needs Spark."
    ),
    browser: bool = typer.Option(
        True, "--browser/--no-browser", help="Open the console, where there is a display."
    ),
    stay: bool | None = typer.Option(
        None,
        "--stay/--no-stay",
        help="Write on until Ctrl-C, for the console's tour; without a word, where a browser opens.",
    ),
    as_json: bool = json_option(),
) -> int:
    """Write, kill -9, restart, replay; then a shop with views; verify, with a summary.

    First the log alone: a broker is killed half-way with a producer still writing, started again, and
    everything is read back from offset 0 and compared with what was acknowledged. Then a shop, a project
    under headwater up: its database is captured while a load generator writes to it; PySpark joins,
    finds sessions and adds up the revenue of each minute; views follow in a cache, in search and in
    DuckDB, also while the broker is killed; the console shows it, and its tour takes a visitor through
    it in five steps. In the end, or on Ctrl-C, every row of every view is compared with the database.
    The exit code is 0 only if all of it matched.

    Example: headwater demo --seconds 60 --data data/demo
    """
    _prepare(durability, database)
    from headwater.cli.demo_view import audience_for, print_summary
    from headwater.project.demo import Plan, run

    opens = browser and not as_json and _has_display()
    with ExitStack() as cleanup:
        plan = Plan(
            data=data or Path(cleanup.enter_context(_temporary())),
            # A name of its own, so that a second demo in the same folder meets an empty topic.
            topic=time.strftime("demo-%Y%m%d-%H%M%S"),
            records=records,
            durability=durability,
            shop=shop,
            seconds=seconds,
            database=database,
            browser=opens,
            stay=opens if stay is None else stay,
        )
        audience = cleanup.enter_context(audience_for(quiet=as_json))
        summary: Summary = run(plan, audience)
    if as_json:
        print_json({**summary.as_json(), "data": data and str(data)})
    else:
        print_summary(summary, kept=data is not None)
    return exit_code(summary)


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="headwater-demo-")


def _prepare(durability: str, database: str | None) -> None:
    if durability not in ("disk", "os"):
        raise typer.BadParameter(f"{durability!r} is not one of disk, os")
    if database is not None and not database.startswith(("postgresql://", "postgres://")):
        raise typer.BadParameter("--database takes postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    # What it has started is stopped, and its folder removed; also where a script began it in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def exit_code(summary: Summary) -> int:
    return 0 if summary.verified else MISMATCH


def _has_display() -> bool:
    """Whether somebody sits before this machine; a browser in the terminal would take it over."""
    if sys.platform == "darwin":
        return sys.stdout.isatty()
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(shown) and sys.stdout.isatty()
