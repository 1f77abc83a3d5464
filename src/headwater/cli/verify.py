"""`headwater verify`: compare a view with the log at one position, and repair what differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from headwater.cli.admin import admin, bootstrap_option, json_option, print_json
from headwater.cli.pipeline_words import (
    Given,
    ask_running,
    checkpoints_option,
    conf_option,
    master_option,
    order_of,
    paths_argument,
    to_option,
    understood,
)
from headwater.cli.progress import Waiting

if TYPE_CHECKING:
    from headwater.views.operate.differences import Difference, Report

DIFFERENT = 1
SHOWN = 20


def add_to(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    view: str = typer.Argument(..., metavar="VIEW", help="Name of the view."),
    paths: list[Path] = paths_argument(),
    repair: bool = typer.Option(
        False, "--repair", help="Write the corrections, and only these, into the view."
    ),
    version: int | None = typer.Option(
        None, "--version", min=1, help="Another version of it than the one that readers see."
    ),
    to: list[str] = to_option(),
    limit: int = typer.Option(
        SHOWN, "--limit", min=0, metavar="COUNT", help="Name so many keys that differ."
    ),
    bootstrap: str = bootstrap_option(),
    master: str = master_option(),
    checkpoints: str = checkpoints_option(),
    conf: list[str] = conf_option(),
    as_json: bool = json_option(),
) -> int:
    """Compare a view with the log, online.

    Takes the view's rows and position of one moment, computes from the log what they must be at that
    position, and names the keys that are missing, extra or different. The view's query goes on
    meanwhile. The exit code is 0 if the view is right, or was repaired, and 1 if it is not.

    Example: headwater verify order_search pipelines/ --repair
    """
    given = understood(paths, to, bootstrap, checkpoints, master, conf)
    with admin(given.bootstrap):
        pass  # says at once that no broker answers, before Spark is started
    with Waiting(f"comparing {view} with the log"):
        report = _compared(given, view, repair, version)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report, limit)
    return 0 if report.is_right else DIFFERENT


def _compared(given: Given, view: str, repair: bool, version: int | None) -> Report:
    order, heard = order_of(given), _Heard()
    found = ask_running(given, order, "verify", view, heard, repair=repair, version=version)
    if found is not None:
        return cast("Report", found)
    from headwater.pipelines.verify_job import verified_view

    targets = given.targets
    return verified_view(order, view, heard.say, repair=repair, version=version, targets=targets)


class _Heard:
    def progress(self, done: int, total: int) -> None:
        """A comparison tells none."""

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


def _print(report: Report, limit: int) -> None:
    name = f"{report.view} version {report.version}"
    print(f"{name} at {report.position}")
    print(f"{report.rows:,} rows by the log, {report.found:,} in the view, {report.seconds:.1f} s")
    for remark in report.remarks:
        print(remark)
    if not report.differing:
        print("Right: no row differs")
        return
    parts = [f"{count:,} {kind}" for kind, count in report.counts.items() if count]
    print(f"WRONG: {', '.join(parts)}")
    for each in report.differences[:limit]:
        print(f"  {each.kind:<10}{_key(each)}{_columns(each)}")
    if report.differing > limit:
        print(f"  … and {report.differing - limit:,} more; --limit and --json show them")
    if report.repaired is not None:
        print(f"Repaired: {report.repaired:,} rows written; those not counted had come right since")
    else:
        print(f"headwater verify {report.view} --repair writes the corrections")


def _key(each: Difference) -> str:
    return ", ".join(f"{name}={value}" for name, value in each.key.items())


def _columns(each: Difference) -> str:
    shown = [
        f"{name} is {found!r}, must be {right!r}" for name, (right, found) in each.columns.items()
    ]
    return f": {'; '.join(shown)}" if shown else ""
