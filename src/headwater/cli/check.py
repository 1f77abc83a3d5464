"""`headwater check`: read a stopped broker's data folder as a whole, and say what is wrong with it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import json_option, print_json
from headwater.cli.progress import Bar
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.broker.inspection.check import Report
    from headwater.broker.inspection.findings import Finding

WRONG, CANNOT_LOOK = 1, 2
SHOWN = 50


def add_to(app: typer.Typer) -> None:
    app.command("check")(check)


def folder_argument() -> Any:
    return typer.Argument(..., metavar="DIR", help="The data folder of a stopped broker.")


def quick_option() -> Any:
    return typer.Option(
        False, "--quick", help="Checksums and headers only; do not look at every record."
    )


def check(
    folder: Path = folder_argument(),
    quick: bool = quick_option(),
    limit: int = typer.Option(
        SHOWN, "--limit", min=0, metavar="COUNT", help="Show so many findings; --json shows all."
    ),
    as_json: bool = json_option(),
) -> int:
    """Look at the data folder of a stopped broker, and say in plain words what is wrong.

    Reads the catalogue, every segment, index and checkpoint, transactions, groups and share
    groups, and changes nothing; a read-only disk will do. The exit code is 0 if nothing is
    wrong, 1 if something is, and 2 if it could not look.

    Example: headwater check ./headwater-data
    """
    from headwater.broker.inspection import folder as folders
    from headwater.broker.inspection.check import inspect

    try:
        release = folders.hold(folder, exclusive=False)
        try:
            with Bar("checking", "bytes") as bar:
                report = inspect(folder, quick=quick, progress=bar.show)
        finally:
            release()
    except HeadwaterError as error:
        return cannot_look(error)
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report, limit)
        if any(each.remedy is not None for each in report.wrong):
            print(f"\nheadwater repair {folder} shows what it would do, and does it with --yes.")
    return WRONG if report.wrong else 0


def cannot_look(error: HeadwaterError) -> int:
    print(f"headwater: {error.sentence} {error.hint or ''}".rstrip(), file=sys.stderr)
    return CANNOT_LOOK


def print_report(report: Report, limit: int) -> None:
    """Worst first, each with what it means; the same thing in many places only so often."""
    rate = report.bytes / max(report.seconds, 0.001) / 1e6
    print(
        f"{report.partitions:,} partitions, {report.batches:,} batches, {report.records:,} records, "
        f"{report.bytes / 1e6:,.1f} MB in {report.seconds:.1f} s ({rate:,.0f} MB/s)"
    )
    print(
        "Left by a clean stop."
        if report.is_clean
        else "Not left by a clean stop: the next start reads the ends of the logs again."
    )
    for finding in report.findings[:limit]:
        print_finding(finding)
    if len(report.findings) > limit:
        print(f"\n… and {len(report.findings) - limit:,} more; --limit and --json show them.")
    counts = Counter(str(each.severity) for each in report.findings)
    parts = [f"{counts[kind]:,} {kind}" for kind in ("loss", "damage", "nuisance", "note")]
    words = ", ".join(part for part in parts if not part.startswith("0 "))
    print(f"\n{'WRONG' if report.wrong else 'Right'}: {words or 'nothing to say'}.")


def print_finding(finding: Finding) -> None:
    where = finding.where
    if finding.first_offset is not None:
        last = finding.last_offset
        span = f"–{last}" if last is not None and last != finding.first_offset else ""
        where += f", offset {finding.first_offset}{span}"
    print(f"\n{finding.severity.upper()}  {where}")
    print(f"  {finding.what[:1].upper()}{finding.what[1:]}.")
    print(f"  Means: {finding.means}.")
    if finding.remedy is not None:
        print(f"  Repair: {finding.remedy.says}.")
