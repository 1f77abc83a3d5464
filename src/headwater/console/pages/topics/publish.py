"""Publish one record: key, value, headers, partition; refused by the server in a read-only console."""

from __future__ import annotations

import json
from functools import partial

from nicegui import ui

from headwater.client.errors import BadRequest
from headwater.client.namespace import refuse_own
from headwater.client.publisher import Draft, publish
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.live import loaded

FORMS = {"text": "text or JSON", "json": "JSON, checked", "hex": "hexadecimal"}


def publish_dialog(visit: Visit, topic: str) -> ui.dialog:
    """Made with the page, opened by its button; keeps what was typed for a second record."""
    with ui.dialog() as dialog, ui.card().classes("hw-dialog hw-dialog-wide"):
        ui.label(f"Publish to {topic}").classes("hw-card-label").props(
            'role="heading" aria-level="2"'
        )
        key = ui.input("Key (none if empty)").props("outlined dense").classes("full-width")
        with ui.element("div").classes("hw-tools"):
            form = ui.select(FORMS, value="text", label="The value is").props("outlined dense")
            form.classes("hw-choice")
            tombstone = ui.checkbox("Tombstone: no value, the key is deleted")
        value = ui.textarea("Value").props("outlined autogrow input-class=hw-mono")
        value.classes("full-width").bind_enabled_from(tombstone, "value", lambda on: not on)
        headers = ui.textarea("Headers, one NAME=VALUE in each line")
        headers.props("outlined autogrow input-class=hw-mono").classes("full-width")
        partition = ui.number("Partition (by the key if empty)", min=0, precision=0)
        partition.props("outlined dense").classes("full-width")

        async def do() -> None:
            refuse_own(topic)
            number = None if partition.value is None else int(partition.value)
            draft = draft_of(
                key.value or "",
                None if tombstone.value else value.value or "",
                str(form.value),
                headers.value or "",
                number,
            )
            stored = await loaded(partial(publish, visit.context.log, topic, draft))
            elements.notify(f"Published: record {stored.partition}:{stored.offset}")
            dialog.close()

        with ui.row().classes("justify-end full-width"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            elements.action(
                visit, Action.PUBLISH, "Publish record", do, props="unelevated color=primary"
            )
    return dialog


def draft_of(
    key: str, value: str | None, form: str, headers: str, partition: int | None = None
) -> Draft:
    """What was typed as a record; raises Misunderstood."""
    return Draft(
        key.encode() if key else None,
        None if value is None else value_bytes(value, form),
        tuple(_header(line) for line in headers.splitlines() if line.strip()),
        partition,
    )


def value_bytes(value: str, form: str) -> bytes:
    if form == "hex":
        try:
            return bytes.fromhex(value)
        except ValueError:
            raise BadRequest("the value is not hexadecimal", hint="two digits per byte") from None
    if form == "json":
        try:
            json.loads(value)
        except ValueError as error:
            raise BadRequest(
                f"the value is no JSON: {error}", hint="correct it, or publish it as text"
            ) from None
    return value.encode()


def _header(line: str) -> tuple[str, bytes | None]:
    name, sign, value = line.partition("=")
    if not name.strip():
        raise BadRequest(f"the header {line!r} has no name", hint="write NAME=VALUE")
    return name.strip(), value.encode() if sign else None
