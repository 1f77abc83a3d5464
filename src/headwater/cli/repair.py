"""`headwater repair`: repair a stopped broker's data folder, and put aside what cannot be repaired."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import json_option, print_json
from headwater.cli.check import (
    SHOWN,
    WRONG,
    cannot_look,
    folder_argument,
    print_report,
    quick_option,
)
from headwater.cli.progress import Bar
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.broker.inspection.repair import Outcome


def add_to(app: typer.Typer) -> None:
    app.command("repair")(repair)


def repair(
    folder: Path = folder_argument(),
    yes: bool = typer.Option(
        False, "--yes", "-y", help="Do it; without this, only say what would be done."
    ),
    quick: bool = quick_option(),
    limit: int = typer.Option(
        SHOWN, "--limit", min=0, metavar="COUNT", help="Show so many findings; --json shows all."
    ),
    as_json: bool = json_option(),
) -> int:
    """Repair the data folder of a stopped broker; nothing is deleted.

    Does what `headwater check` names as repair. What is replaced or taken out goes to a folder
    below DIR/set-aside, with a report. Interrupted at any point, it is simply run again. The
    exit code is 0 if nothing is wrong (any more), 1 if something is, and 2 if it could not look.

    Example: headwater repair ./headwater-data --yes
    """
    from headwater.broker.inspection import folder as folders
    from headwater.broker.inspection.check import inspect
    from headwater.broker.inspection.repair import Outcome
    from headwater.broker.inspection.repair import repair as repair_folder

    try:
        folders.opened(folder)  # before a lock file is made in a folder that is none of ours
        release = folders.hold(folder, exclusive=yes)
        try:
            with Bar("repairing" if yes else "checking", "bytes") as bar:
                if yes:
                    outcome = repair_folder(folder, quick=quick, progress=bar.show)
                else:
                    found = inspect(folder, quick=quick, progress=bar.show)
                    outcome = Outcome(found, found)
        finally:
            release()
    except HeadwaterError as error:
        return cannot_look(error)
    if as_json:
        print_json(outcome.as_json())
    else:
        _print(outcome, folder, yes, limit)
    return WRONG if outcome.after.wrong else 0


def _print(outcome: Outcome, folder: Path, yes: bool, limit: int) -> None:
    print_report(outcome.before, limit)
    if not yes:
        if any(each.remedy is not None for each in outcome.before.findings):
            print(f"\nNothing was changed. headwater repair {folder} --yes does it.")
        return
    if outcome.aside is None:
        print("\nThere was nothing to repair.")
        return
    print("\nDone:")
    for says, count in Counter(each.says for each in outcome.done).items():
        print(f"  {count:,} × {says}")
    for failure in outcome.failed:
        print(f"  FAILED: {failure.remedy.says}: {failure.why}")
    print(f"What was replaced or taken out is in {outcome.aside}.\n\nAfterwards:")
    print_report(outcome.after, limit)
