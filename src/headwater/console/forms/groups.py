"""Let a group forget topics, or delete it: forms that first show what would be lost."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from headwater.client import groups
from headwater.console.actions import Action
from headwater.console.administration import groups as administration
from headwater.console.context import Visit
from headwater.console.forms.trial import Plan, Row, Trial, deletion, form
from headwater.console.live import loaded


class OffsetsForm:
    """What a group has committed for a topic goes: it begins there as a new group does."""

    def __init__(self, visit: Visit, group: str) -> None:
        self._visit, self._group = visit, group
        with form(
            f"Delete offsets of {group}",
            "Where it has none, it begins as its auto.offset.reset says. Refused while it reads the topic.",
        ) as self._dialog:
            self._topics = ui.select([], label="Topics", multiple=True)
            self._topics.props("outlined dense use-chips").classes("full-width")
            trial = Trial(
                visit,
                Action.DELETE_OFFSETS,
                self._dialog,
                self._plan,
                apply="Delete offsets",
                is_final=True,
            )
            self._topics.on_value_change(trial.forget)

    async def open(self) -> None:
        found = await loaded(partial(groups.named, self._visit.context.log, self._group))
        self._topics.set_options(found.topics, value=[])
        self._dialog.open()

    async def _plan(self) -> Plan:
        chosen = [str(each) for each in self._topics.value or ()]
        lost = await loaded(partial(administration.would_forget, self._visit, self._group, chosen))
        return Plan(
            "These positions would be gone:",
            [Row(f"{each.topic}-{each.partition}", f"{each.committed:,}", "–") for each in lost],
            partial(administration.delete_offsets, self._visit, self._group, chosen),
            f"{self._group} has forgotten {', '.join(chosen)}",
        )


def deletion_form(visit: Visit, group: str) -> ui.dialog:
    """The dialog that deletes a group; its name is typed by hand."""

    async def lost() -> list[Row]:
        found = await loaded(partial(groups.named, visit.context.log, group))
        rows = [Row("members", str(len(found.members)), "0")]
        return rows + [
            Row(f"{each.topic}-{each.partition}", f"{each.committed:,}", "–")
            for each in found.partitions
            if each.committed is not None
        ]

    return deletion(
        visit,
        Action.DELETE_GROUP,
        group,
        "Its positions go with it. Refused while it has members.",
        lost,
        administration.delete,
    )
