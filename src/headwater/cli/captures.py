"""`headwater captures`: how far every capture of the project is; `capture status` for all of them."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.admin import bootstrap_option, check_presence, json_option, print_json
from headwater.cli.properties import client_config
from headwater.errors import HeadwaterError

UNKNOWN = 1


def add_to(app: typer.Typer) -> None:
    app.command("captures")(captures)


def captures(
    file: Path = typer.Option(
        Path("headwater.toml"), "--file", metavar="PATH", help="The project's file."
    ),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Show how far each capture of the project is: position, lag, what the database keeps.

    A database that does not answer is said in its line, and the exit code is 1.

    Example: headwater captures --json
    """
    from headwater.capture.config import from_file
    from headwater.cli.capture_status import asked, shown
    from headwater.project.file import load

    project = load(file)
    check_presence(bootstrap)
    found, good = [], True
    for name in project.captures:
        try:
            status = asked(from_file(file, name, bootstrap, client_config()))
        except HeadwaterError as error:
            good = False
            status = {"capture": name, "trouble": error.with_hint}
        found.append(status)
    if as_json:
        print_json(found)
    else:
        print("\n".join(map(shown, found)) or f"{file} has no [capture.NAME]")
    return 0 if good else UNKNOWN
