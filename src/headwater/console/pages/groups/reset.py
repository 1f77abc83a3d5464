"""Put a group elsewhere: first what would change, then, once that was seen, the change.

Refused while the group has members, and by the server in a read-only console.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from nicegui import ui

from headwater.client import groups
from headwater.client.errors import BadRequest
from headwater.client.groups import Move, Reset
from headwater.client.places import parse
from headwater.console.actions import Action
from headwater.console.administration import groups as administration
from headwater.console.context import Visit
from headwater.console.forms.trial import Plan, Row, Trial, form
from headwater.console.live import loaded

_SHIFT = re.compile(r"([+-]\d+)")


def reset_dialog(visit: Visit, group: str) -> Callable[[], None]:
    """Made with the page; what is returned opens it."""
    sentence = "Where should it continue reading? Nothing changes before you have seen what would."
    with form(f"Reset {group}", sentence) as dialog:
        to = ui.input("To", value="beginning")
        ui.label(
            "beginning, end, an offset (17), a time (2026-11-15T15:00), so long ago (-10m), "
            "or a shift in records (+100, -100)"
        ).classes("hw-soft hw-small")
        topic = ui.input("Only this topic (all if empty)")
        partitions = ui.input("Only these partitions (0,2; all if empty)")

        async def plan() -> Plan:
            where, only = reset_of(to.value or ""), (topic.value or "").strip()
            numbers = _numbers(partitions.value or "")
            topics = [only] if only else ()
            planned = await loaded(
                partial(groups.plan_reset, visit.context.log, group, where, topics, numbers)
            )
            rows = [_row(each) for each in planned.moves]
            if not planned.changes:
                return Plan("Nothing would change: it is already there.", rows)
            count = _partitions(len(planned.changes))
            return Plan(
                f"{count} would change:",
                rows,
                # Members may have come since: the plan is refused then, and so is this.
                partial(administration.reset, visit, planned),
                f"{group} was reset: {count} moved",
                f"Reset {count}",
            )

        trial = Trial(visit, Action.RESET_GROUP, dialog, plan, apply="Reset", is_final=True)
        for each in (to, topic, partitions):
            each.props("outlined dense").classes("full-width").on_value_change(trial.forget)

    def opened() -> None:
        trial.forget()
        dialog.open()

    return opened


def reset_of(words: str) -> Reset:
    """A signed number is a shift; `-10m` and everything else is a place."""
    text = words.strip()
    if not text:
        raise BadRequest("say where to", hint="beginning, end, 17, 2026-11-15T15:00, +100")
    if found := _SHIFT.fullmatch(text):
        return Reset(shift=int(found[1]))
    return Reset(place=parse(text))


def _numbers(words: str) -> list[int] | None:
    parts = [part.strip() for part in words.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise BadRequest(f"{words!r} are no partitions", hint="write numbers, as in 0,2")
    return [int(part) for part in parts] or None


def _row(move: Move) -> Row:
    by = None if move.before is None else move.after - move.before
    if by is None:
        change = "first position"
    elif by == 0:
        change = "stays"
    else:
        change = f"{abs(by):,} {'skipped' if by > 0 else 'read again'}"
    before = "none yet" if move.before is None else f"{move.before:,}"
    return Row(f"{move.topic}-{move.partition}", before, f"{move.after:,} ({change})")


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
