"""The parts of the project: let one stand still, go on, or start anew; the supervisor or the edges do it."""

from __future__ import annotations

import logging

from headwater.browse import audit
from headwater.client.errors import NotThere
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.errors import HeadwaterError
from headwater.project import control
from headwater.project.control import Verb

_log = logging.getLogger("headwater.console")


def change(visit: Visit, name: str, verb: Verb) -> None:
    """Written down with who asked for it, and done within moments."""
    visit.must(Action.CONTROL_PART)
    project = visit.context.project
    if project is None:
        raise NotThere("this console shows a log, and no project")
    found = control.named(project, name)
    control.ask(control.folder_of(project), found, verb, visit.visitor.name)
    try:
        audit.tell_of_part(visit.log, found, verb, visit.visitor.name)
    except HeadwaterError as error:  # it is done: this is also for a log that does not answer
        _log.error("who wanted to %s %s is not in the audit: %s", verb, found, error)
