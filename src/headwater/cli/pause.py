"""`headwater pause`: let a part of the project that runs stand still, until it is resumed.

`resume` and `restart` ask in the same way: they write down what is wanted (`project.control`), and whoever
runs the part, the supervisor of `headwater up`, the edges or the pipelines, does it.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.up import file_option
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.project.control import Verb


def add_to(app: typer.Typer) -> None:
    app.command("pause")(pause)


def name_argument() -> str:
    argument: str = typer.Argument(
        metavar="NAME",
        help="A capture, view, bridge or webhook by its name, or a part as headwater status names it.",
    )
    return argument


def pause(name: str = name_argument(), file: Path = file_option()) -> None:
    """Let a capture, a view, a bridge, a webhook, the pipelines or the edges stand still.

    It ends the work at hand, and stays paused when the project is started again; what comes meanwhile waits
    where it is. headwater resume lets it go on.

    Example: headwater pause shop
    """
    asked(file, name, "pause")


def asked(file: Path, word: str, verb: Verb) -> None:
    """Write down what is wanted of one part, and say what follows."""
    from headwater.project import control, record
    from headwater.project.file import load

    project, who = load(file), f"{getpass.getuser()} (command line)"
    name = control.named(project, word)
    control.ask(control.folder_of(project), name, verb, who)
    is_up, _ = record.read(control.folder_of(project))
    print(f"{name}: {SAID[verb]}" + ("" if is_up else "; the project is not up"), flush=True)
    try:
        _tell(project.address, name, verb, who)
    except HeadwaterError as error:
        print(f"that is not in the audit: {error}", file=sys.stderr)


def _tell(bootstrap: str, name: str, verb: Verb, who: str) -> None:
    from headwater.browse import audit
    from headwater.cli.admin import opened

    with opened(bootstrap) as log:
        audit.tell_of_part(log, name, verb, who)


SAID = {"pause": "paused", "resume": "resumed", "restart": "restarted"}
