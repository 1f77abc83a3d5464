"""Make a topic, let it grow, delete it: forms that first show what would happen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nicegui import ui

from headwater.client import topics
from headwater.client.errors import BadRequest
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.administration import topics as administration
from headwater.console.administration.topics import BY_DEFAULT, NewTopic, settings_in
from headwater.console.context import Visit
from headwater.console.forms.trial import Plan, Row, Trial, deletion, form
from headwater.console.live import loaded
from headwater.console.sentences import number, size

_CLEANUP = {
    "": "as the broker does by default",
    "delete": "delete what is too old",
    "compact": "keep the latest of each key",
    "compact,delete": "both",
}


class _Creation:
    """The fields of a new topic."""

    def __init__(self) -> None:
        self._name = ui.input("Name").props("outlined dense input-class=hw-mono")
        self._name.classes("full-width")
        with ui.element("div").classes("hw-fields-row"):
            self._partitions = ui.number("Partitions", min=1, precision=0)
            self._replicas = ui.number("Replicas", min=1, precision=0)
            self._hours = ui.number("Hours kept (-1: all)", min=-1)
        self._cleanup = ui.select(_CLEANUP, value="", label="Old records").classes("full-width")
        for each in (self._partitions, self._replicas, self._hours, self._cleanup):
            each.props("outlined dense")
        self._more = ui.textarea("Other settings, one NAME=VALUE in each line")
        self._more.props("outlined autogrow input-class=hw-mono").classes("full-width")

    def on_change(self, do: Callable[[], object]) -> None:
        self._name.on_value_change(do)
        self._cleanup.on_value_change(do)
        self._more.on_value_change(do)
        for each in (self._partitions, self._replicas, self._hours):
            each.on_value_change(do)

    def wanted(self) -> NewTopic:
        settings = settings_in(self._more.value or "")
        if self._cleanup.value:
            settings["cleanup.policy"] = str(self._cleanup.value)
        if self._hours.value is not None:
            hours = float(self._hours.value)
            settings["retention.ms"] = str(-1 if hours < 0 else int(hours * 3_600_000))
        return NewTopic(
            (self._name.value or "").strip(),
            int(self._partitions.value or BY_DEFAULT),
            int(self._replicas.value or BY_DEFAULT),
            settings,
        )


def creation_form(visit: Visit, after: Callable[[], object]) -> ui.dialog:
    """The dialog that makes a topic."""
    with form("New topic", "Empty fields get the defaults of the broker.") as box:
        fields = _Creation()

        async def plan() -> Plan:
            new = fields.wanted()
            await loaded(partial(administration.create, visit, new, dry_run=True))
            return Plan(
                f"The broker would make {new.name}:",
                _creation_rows(new),
                partial(administration.create, visit, new, dry_run=False),
                f"Created topic {new.name}",
            )

        trial = Trial(visit, Action.CREATE_TOPIC, box, plan, apply="Create topic", after=after)
        fields.on_change(trial.forget)
    return box


def _creation_rows(new: NewTopic) -> list[Row]:
    counts = (("partitions", new.partitions), ("replicas", new.replicas))
    return [
        *(Row(what, "–", "by default" if n == BY_DEFAULT else str(n)) for what, n in counts),
        *(Row(what, "–", value) for what, value in sorted(new.settings.items())),
    ]


def growth_form(visit: Visit, topic: str) -> ui.dialog:
    """The dialog that adds partitions."""
    with form(
        f"Add partitions to {topic}",
        "A key's next records may go to another partition than those before: order by key holds within each. "
        "Partitions can only become more.",
    ) as box:
        total = ui.number("Partitions in all", min=1, precision=0).props("outlined dense")
        total.classes("full-width")

        async def plan() -> Plan:
            if total.value is None:
                raise BadRequest("say how many partitions it is to have in all")
            wanted = int(total.value)
            found = await loaded(partial(topics.named, visit.context.log, topic))
            now = len(found.partitions)
            if wanted == now:
                return Plan(f"Nothing would change: {topic} has {now} already.")
            await loaded(partial(administration.grow, visit, topic, wanted, dry_run=True))
            return Plan(
                "The broker would accept this:",
                [Row("partitions", str(now), str(wanted))],
                partial(administration.grow, visit, topic, wanted, dry_run=False),
                f"{topic} has {wanted} partitions",
            )

        trial = Trial(visit, Action.ADD_PARTITIONS, box, plan, apply="Add partitions")
        total.on_value_change(trial.forget)
    return box


def deletion_form(visit: Visit, topic: str) -> ui.dialog:
    """The dialog that deletes a topic; its name is typed by hand."""

    async def lost() -> list[Row]:
        found = await loaded(partial(administration.would_lose, visit, topic))
        return [
            Row("records", number(found.records), "0"),
            Row("size", size(found.bytes), "–"),
            Row("partitions", str(found.partitions), "–"),
            Row("positions of groups", ", ".join(found.groups) or "none", "–"),
        ]

    return deletion(
        visit,
        Action.DELETE_TOPIC,
        topic,
        "Its records go with it, and cannot be brought back.",
        lost,
        administration.delete,
    )


def topic_buttons(visit: Visit, topic: str) -> None:
    """What may be done to the topic itself."""
    growth, deletion = growth_form(visit, topic), deletion_form(visit, topic)
    elements.action(visit, Action.ADD_PARTITIONS, "Add partitions", growth.open, icon="add_box")
    elements.action(
        visit,
        Action.DELETE_TOPIC,
        "Delete",
        deletion.open,
        icon="delete",
        props="outline color=negative",
    )
