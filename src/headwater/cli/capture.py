"""`headwater capture`: a database's changes into the log; run, check, snapshot, status, schema, remove."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import bootstrap_option, check_presence, json_option
from headwater.cli.completion import capture_names
from headwater.cli.doctor import finding_as_json, print_finding
from headwater.cli.properties import read_settings

if TYPE_CHECKING:
    from headwater.capture.config import CaptureConfig
    from headwater.capture.runner import Runner

PROGRESS_EVERY_S = 5.0
NAME = typer.Argument(
    ...,
    metavar="NAME",
    help="The capture: [capture.NAME] of headwater.toml.",
    autocompletion=capture_names,
)
FILE = typer.Option(
    Path("headwater.toml"), "--file", metavar="PATH", help="Where [capture.NAME] stands."
)
FROM = typer.Option(
    None, "--from", metavar="URL", help="The database, instead of the file: postgresql://…"
)
TABLES = typer.Option([], "--table", metavar="TABLE", help="A table to capture, with --from.")


def add_to(app: typer.Typer) -> None:
    capture = typer.Typer(
        name="capture",
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Capture a database's changes into the log.",
    )
    capture.command("run")(run)
    capture.command("check")(check)
    capture.command("snapshot")(snapshot)
    capture.command("status")(status)
    capture.command("schema")(schema)
    capture.command("remove")(remove)
    app.add_typer(capture)


def run(
    name: str = NAME,
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
    table: list[str] = TABLES,
    resnapshot: bool = typer.Option(
        False, "--resnapshot", help="Forget how far it was, and begin with a new snapshot."
    ),
    snapshot_only: bool = typer.Option(
        False, "--snapshot-only", help="Leave when the first snapshot is complete."
    ),
) -> None:
    """Capture until told to stop: a first snapshot, then every change, each exactly once.

    Whatever is killed, restarted or cut off meanwhile, it goes on by itself from the position that
    the log holds. SIGTERM or Ctrl-C stops it after the batch at hand.

    Example: headwater capture run shop
    """
    config = _config(name, bootstrap, file, database, table)
    from headwater.capture.removal import forget
    from headwater.capture.runner import Runner

    if resnapshot:
        forget(config)
        _say(f"{name}: starts over")
    runner = Runner(config, lambda sentence: _say(f"{name}: {sentence}"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: runner.stop())
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(runner, name, over), daemon=True)
    watcher.start()
    try:
        runner.run(until_streaming=snapshot_only)
    finally:
        over.set()
        watcher.join()
    _say(f"{name}: stopped after {runner.status.rows:,} rows")


def check(
    name: str = NAME,
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
    table: list[str] = TABLES,
    as_json: bool = json_option(),
) -> int:
    """Look at everything that the capture needs; say for each failure how to fix it.

    Example: headwater capture check shop
    """
    from headwater.capture.source import open_source

    source = open_source(_config(name, bootstrap, file, database, table))
    try:
        found = source.check()
    finally:
        source.close()
    if as_json:
        print(json.dumps([finding_as_json(finding) for finding in found], indent=2))
    else:
        for finding in found:
            print_finding(finding)
    return 0 if all(finding.ok for finding in found) else 1


def snapshot(
    name: str = NAME,
    tables: list[str] = typer.Argument(
        None, metavar="[TABLE]…", help="Which tables; all, if none is named."
    ),
    where: str = typer.Option(
        None, "--where", metavar="SQL", help="Only these rows of the one table."
    ),
    first: str = typer.Option(
        None, "--first", metavar="KEY", help="From this value of the key's first column on."
    ),
    last: str = typer.Option(None, "--last", metavar="KEY", help="Up to this one, included."),
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
) -> None:
    """Read tables again while the capture goes on, for a new table or to heal one.

    Rows that are there come again as `r`; of rows that are gone nothing is said.

    Example: headwater capture snapshot shop orders --first 1000 --last 2000
    """
    from headwater.capture.source import Range, open_source

    source = open_source(_config(name, bootstrap, file, database, []))
    try:
        print(source.request_snapshot(list(tables or []), Range(where, first, last)))
    finally:
        source.close()


def schema(
    name: str = NAME,
    table: str = typer.Argument(..., metavar="TABLE", help="The table, as its topic names it."),
    key: bool = typer.Option(False, "--key", help="The key's schema instead of the value's."),
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
) -> int:
    """Print the newest Avro schema of a table's records, for a capture with format = "avro".

    Example: headwater capture schema shop orders --key
    """
    from headwater.capture.positions import read_topic

    config = _config(name, bootstrap, file, database, [])
    subject = f"{name}.{table}-{'key' if key else 'value'}"
    found = [
        json.loads(value)
        for _, value in read_topic(bootstrap, config.avro_topic, config.client)
        if value
    ]
    texts = [one["schema"] for one in found if one["subject"] == subject]
    if not texts:
        known = ", ".join(sorted({one["subject"] for one in found})) or "nothing"
        print(f"{config.avro_topic} has no {subject}; it has {known}", file=sys.stderr)
        return 1
    print(texts[-1])
    return 0


def remove(
    name: str = NAME,
    topics: bool = typer.Option(
        False, "--topics", help="Delete the capture's topics as well, with all that they hold."
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
) -> int:
    """End a capture permanently: take its slot, publication or triggers out of the database.

    A run that still goes on is fenced and ends. Topics stay, unless they are to go as well.

    Example: headwater capture remove shop --topics
    """
    from headwater.capture.removal import remove as remove_capture

    config = _config(name, bootstrap, file, database, [])
    if not yes:
        if not sys.stdin.isatty():
            print("nobody is here to be asked: say --yes", file=sys.stderr)
            return 1
        what = "the capture and its topics" if topics else "the capture"
        if not typer.confirm(f"Remove {what} {name}?"):
            return 1
    for sentence in remove_capture(config, topics=topics):
        print(f"{name}: {sentence}")
    return 0


def status(
    name: str = NAME,
    bootstrap: str = bootstrap_option(),
    file: Path = FILE,
    database: str | None = FROM,
    as_json: bool = json_option(),
) -> None:
    """How far the capture is: its position in the log, and what the database keeps for it.

    Example: headwater capture status shop --json
    """
    from headwater.cli.capture_status import asked, shown

    config = _config(name, bootstrap, file, database, [])
    check_presence(bootstrap)
    found = asked(config)
    print(json.dumps(found, indent=2) if as_json else shown(found))


def _config(
    name: str, bootstrap: str, file: Path, database: str | None, tables: list[str]
) -> CaptureConfig:
    from headwater.capture.config import from_file, from_mapping

    path = os.environ.get("HEADWATER_CLIENT_CONFIG")
    client = read_settings(Path(path)) if path else {}
    if database is not None:
        return from_mapping(name, {"from": database, "tables": tables}, bootstrap, client)
    return from_file(file, name, bootstrap, client)


def _watch(runner: Runner, name: str, over: threading.Event) -> None:
    """Tell how far the snapshot is: a bar for a person, a line now and then for a file."""
    if sys.stderr.isatty():
        _bar(runner, over)
        return
    told, rows = time.monotonic(), 0
    while not over.wait(PROGRESS_EVERY_S):
        source = runner.source
        progress = source.progress() if source is not None else None
        if progress is not None:
            now = time.monotonic()
            rate = (runner.status.rows - rows) / (now - told)
            told, rows = now, runner.status.rows
            left = max(progress.rows_expected - progress.rows, 0) / rate if rate > 0 else 0.0
            _say(
                f"{name}: snapshot of {progress.table}: {progress.rows:,} of about "
                f"{progress.rows_expected:,} rows, {rate:,.0f} rows/s, {left:.0f} s left "
                f"(table {progress.tables_done + 1} of {progress.tables})"
            )


def _bar(runner: Runner, over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of about {task.total:,.0f} rows"),
        TextColumn("{task.speed:,.0f} rows/s"),
        TimeRemainingColumn(),
    )
    bars: dict[str, Any] = {}
    shown: Progress | None = None
    while not over.wait(0.2):
        source = runner.source
        progress = source.progress() if source is not None else None
        if progress is None:
            if shown is not None:
                shown.stop()
                shown, bars = None, {}
            continue
        if shown is None:
            shown = Progress(*columns, console=Console(stderr=True))
            shown.start()
        total = max(progress.rows_expected, progress.rows, 1)
        if progress.table not in bars:
            bars[progress.table] = shown.add_task(progress.table, total=total)
        shown.update(bars[progress.table], completed=progress.rows, total=total)
    if shown is not None:
        shown.stop()


def _say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)
