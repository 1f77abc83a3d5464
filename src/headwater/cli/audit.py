"""`headwater audit`: who changed what, as the broker wrote it down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json, print_table

if TYPE_CHECKING:
    from headwater.browse.audit import Entry

LAST = 20


def add_to(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    last: int = typer.Option(LAST, "--last", min=1, metavar="N", help="So many, the newest."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show who changed topics, settings, users, permissions, quotas and groups, and who excised records.

    The broker writes each down itself, with the principal of the connection; the client is what the
    program calls itself. What was refused is shown, too, with the reason. The newest is last.

    Example: headwater audit --last 50
    """
    from headwater.browse.audit import newest

    with opened(bootstrap) as log:
        found = list(reversed(newest(log, last)))
    if as_json:
        print_json([each.as_json() for each in found])
    elif not found:
        print(
            "Nothing was changed yet, or the log is not headwater's own, or the user has no right to read "
            "__headwater_changes: one that names it (headwater acls)."
        )
    else:
        print_table(["TIME", "WHO", "CLIENT", "WHAT", "OUTCOME"], [_row(each) for each in found])


def _row(entry: Entry) -> list[object]:
    from headwater.browse.audit import sentence

    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at_ms / 1000))
    what = f"{entry.what}: {entry.kind} {entry.name} {sentence(entry.details)}".strip()
    return [at, entry.who, entry.client_id or "-", what, entry.error or "done"]
