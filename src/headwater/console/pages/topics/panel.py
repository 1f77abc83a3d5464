"""One record in full: where it is, its key and headers, and its value as JSON, Avro, text or hexadecimal."""

from __future__ import annotations

import json
from collections.abc import Callable

from nicegui import ui

from headwater.browse.decoder import Decoder, Shown
from headwater.client.records import Record
from headwater.console import elements, sentences
from headwater.console.addresses import link
from headwater.console.pages.topics.rows import place_of
from headwater.console.values import coloured, hex_dump, moment, plain

FORMS = ["auto", "json", "text", "hex"]
_NAMES = {
    "json": "JSON",
    "avro": "Avro",
    "protobuf": "Protobuf",
    "json-schema": "JSON Schema",
    "text": "text",
    "hex": "not UTF-8",
    "null": "tombstone",
}


class Panel:
    """Beside the table; empty until a record is chosen."""

    def __init__(self, decoder: Decoder, *, closed: Callable[[], None]) -> None:
        self._decoder, self._closed = decoder, closed
        self.record: Record | None = None
        self._form = "auto"
        self._place = (
            ui.element("aside").classes("hw-panel").props('aria-label="The chosen record"')
        )
        self._place.set_visibility(False)

    def show(self, record: Record, step: Callable[[int], None]) -> None:
        """This record; `step` goes to the one above (-1) or below (1)."""
        self.record = record
        self._place.clear()
        self._place.set_visibility(True)
        with self._place:
            self._bar(step)
            self._facts(record)
            if record.headers:
                self._headers(record)
            self._value(record)

    def close(self) -> None:
        self.record = None
        self._place.clear()
        self._place.set_visibility(False)
        self._closed()

    def _bar(self, step: Callable[[int], None]) -> None:
        assert self.record is not None
        with ui.element("div").classes("hw-panel-bar"):
            ui.label(f"Record {place_of(self.record)}").classes("hw-card-label hw-mono").props(
                'role="heading" aria-level="2"'
            )
            ui.space()
            for icon, words, by in (
                ("keyboard_arrow_up", "The record above", -1),
                ("keyboard_arrow_down", "The record below", 1),
            ):
                button = ui.button(icon=icon, on_click=lambda _, by=by: step(by))
                button.props["aria-label"] = words
                button.props("flat round dense")
            close = ui.button(icon="close", on_click=self.close).props("flat round dense")
            close.props["aria-label"] = "Close the record"

    def _facts(self, record: Record) -> None:
        key = self._decoder.decode(record.key, record.topic)
        facts = {
            "Partition": f"{record.partition}",
            "Offset": f"{record.offset:,}",
            "Time": f"{moment(record.timestamp_ms)} UTC",
            "Written": sentences.ago(record.timestamp_ms),
            "Size": f"key {sentences.size(len(record.key or b''))}, "
            f"value {sentences.size(len(record.value or b''))}",
        }
        with ui.element("dl").classes("hw-facts"):
            for name, value in facts.items():
                elements.fact(name, value)
            with ui.element("dt"):
                ui.label("Key")
            with ui.element("dd").classes("hw-mono"):
                ui.label("no key" if record.key is None else key.text).classes("hw-wrap")
                if record.key is not None:
                    words = {"key": key.text} if key.kind != "hex" else {"hex": record.key.hex()}
                    ui.link(
                        "its history", link("/time-travel", topic=record.topic, **words)
                    ).classes("hw-small")

    def _headers(self, record: Record) -> None:
        ui.label("Headers").classes("hw-panel-title")
        with ui.element("dl").classes("hw-facts hw-mono"):
            for name, data in record.headers:
                elements.fact(name, self._decoder.decode(data, record.topic).text)

    def _value(self, record: Record) -> None:
        shown = self._decoder.decode(record.value, record.topic)
        with ui.element("div").classes("hw-panel-bar"):
            ui.label("Value").classes("hw-panel-title")
            ui.label(_NAMES[shown.kind]).classes("hw-soft hw-small")
            ui.space()
            if record.value is not None:
                chosen = ui.toggle(
                    {each: each if each != "json" else "JSON" for each in FORMS}, value=self._form
                )
                chosen.props('dense no-caps unelevated size=sm aria-label="Show the value as"')
                self._copy(record, shown)
        note = ui.label("").classes("hw-small hw-note")
        text = ui.html("", sanitize=False, tag="pre").classes("hw-value").props("tabindex=0")
        text.props["aria-label"] = "Value"

        def draw(form: str) -> None:
            self._form = form
            said, remark = value_html(record.value, shown, form)
            text.set_content(said)
            note.set_text(remark or "")
            note.set_visibility(bool(remark))

        draw(self._form)
        if record.value is not None:
            chosen.on_value_change(lambda event: draw(event.value))

    def _copy(self, record: Record, shown: Shown) -> None:
        text = shown.pretty() if shown.kind != "hex" else (record.value or b"").hex()
        button = ui.button(icon="content_copy").props("flat round dense size=sm")
        button.props["aria-label"] = "Copy the value"
        button.on("click", js_handler=f"() => navigator.clipboard.writeText({json.dumps(text)})")


def value_html(data: bytes | None, shown: Shown, form: str) -> tuple[str, str | None]:
    """A value in one of the forms, as HTML, and what must be said about it."""
    if data is None:
        return "", "A tombstone: it says that the key's record is deleted."
    if form == "hex" or (form == "auto" and shown.kind == "hex"):
        return hex_dump(data), shown.note if form == "auto" else None
    if form == "text":
        text = data.decode("utf-8", "replace")
        strange = "\ufffd" in text and (shown.kind == "hex" or shown.is_by_schema)
        return plain(text), "Bytes that are no UTF-8 are shown as \ufffd." if strange else None
    if shown.kind == "json" or shown.is_by_schema:
        return coloured(shown.pretty()), shown.note
    return plain(shown.text), "This value is no JSON." if form == "json" else shown.note
