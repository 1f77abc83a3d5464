"""The parts of the project: let one stand still, go on, or start anew; the supervisor or the edges do it."""

from __future__ import annotations

from headwater.client.errors import NotThere
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.project import control
from headwater.project.control import Verb


def change(visit: Visit, name: str, verb: Verb) -> None:
    """Written down with who asked for it, and done within moments."""
    visit.must(Action.CONTROL_PART)
    project = visit.context.project
    if project is None:
        raise NotThere("this console shows a log, and no project")
    found = control.named(project, name)
    control.ask(control.folder_of(project), found, verb, visit.visitor.name)
