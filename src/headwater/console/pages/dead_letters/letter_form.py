"""One dead letter in full: why it is here, and from where; correct its value, send it back, or dismiss it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from headwater.browse.dead_letters import replay
from headwater.browse.dead_letters.letter import Letter
from headwater.browse.dead_letters.replay import Correction
from headwater.browse.decoder import Decoder
from headwater.client.errors import told
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.elements import PRIMARY
from headwater.console.live import loaded
from headwater.console.pages.topics.publish import FORMS, value_bytes
from headwater.console.values import moment


class LetterForm:
    """Beside the table; empty until a letter is chosen."""

    def __init__(
        self, visit: Visit, topic: str, decoder: Decoder, *, done: Callable[[], Awaitable[None]]
    ) -> None:
        self._visit, self._topic, self._decoder, self._done = visit, topic, decoder, done
        self._place = ui.element("aside").classes("hw-panel")
        self._place.props('aria-label="The chosen letter"')
        self.close()

    def close(self) -> None:
        self._place.clear()
        self._place.set_visibility(False)

    def show(self, letter: Letter) -> None:
        self._place.clear()
        self._place.set_visibility(True)
        with self._place:
            with ui.element("div").classes("hw-panel-bar"):
                ui.label(f"Letter {letter.partition}:{letter.offset}").classes(
                    "hw-card-label"
                ).props('role="heading" aria-level="2"')
                ui.space()
                close = ui.button(icon="close", on_click=self.close).props("flat round dense")
                close.props["aria-label"] = "Close the letter"
            self._facts(letter)
            self._form(letter)

    def _facts(self, letter: Letter) -> None:
        with ui.element("dl").classes("hw-facts"):
            elements.fact("Reason", letter.reason or "none was given")
            with ui.element("dt"):
                ui.label("From")
            with ui.element("dd"):
                if letter.has_source:
                    place = f"{letter.source_partition}:{letter.source_offset}"
                    target = link(f"/topics/{letter.source}", at=place, open=1)
                    ui.link(f"{letter.source} {place}", target).classes("hw-mono")
                else:
                    ui.label("no single record: it was computed from several")
            elements.fact("Given up by", letter.group)
            if letter.deliveries:
                elements.fact(
                    "Delivered", "once" if letter.deliveries == 1 else f"{letter.deliveries} times"
                )
            elements.fact("Since", f"{moment(letter.timestamp_ms)} UTC")
            key = self._decoder.decode(letter.key, letter.source).text
            elements.fact("Key", "no key" if letter.key is None else key)
            for name, value in letter.said.items():
                elements.fact(name.capitalize(), value)
            for name, data in letter.headers:
                elements.fact(f"Header {name}", self._decoder.decode(data).text)

    def _form(self, letter: Letter) -> None:
        text, form = editable(letter.value)
        with ui.element("div").classes("hw-panel-bar"):
            ui.label("Value").classes("hw-panel-title")
            ui.space()
            chosen = ui.select(FORMS, value=form).props("dense outlined options-dense")
            chosen.props('aria-label="The value is"')
        value = ui.textarea(value=text).props("outlined input-class=hw-mono autogrow")
        value.props["aria-label"] = "Value of the letter"
        value.classes("full-width")
        if letter.value is None:
            value.disable()
            ui.label("A tombstone: it has no value to correct.").classes("hw-soft hw-small")
        to = ui.input("Send to", value=letter.source if letter.has_source else "")
        to.props("outlined dense").classes("full-width q-mt-sm")

        async def send() -> None:
            target = (to.value or "").strip()
            elsewhere = "" if letter.has_source and target == letter.source else target
            data = None
            if letter.value is not None:
                data = value_bytes(value.value or "", str(chosen.value))
            is_changed = data != letter.value
            which = Correction(letter.partition, letter.offset, data, is_changed)
            went = await self._do(partial(replay.send_one, which=which, to=elsewhere))
            elements.notify(f"Sent {'corrected ' if is_changed else ''}to {went}")
            await self._done()

        async def dismiss() -> None:
            question = (
                f"Dismiss letter {letter.partition}:{letter.offset}? It stays in {self._topic}, but "
                "waits no longer and is not sent back."
            )
            if await elements.confirmed(self._visit, Action.DISMISS, question, "Dismiss"):
                await self._do(
                    partial(replay.dismiss, partition=letter.partition, offset=letter.offset)
                )
                elements.notify("Dismissed")
                await self._done()

        with ui.element("div").classes("hw-tools q-mt-sm"):
            elements.action(
                self._visit, Action.SEND_BACK, "Send back", send, icon="send", props=PRIMARY
            )
            elements.action(self._visit, Action.DISMISS, "Dismiss", dismiss, icon="delete_sweep")

    async def _do(self, act: Callable[..., object]) -> object:
        log = self._visit.context.log

        def run() -> object:
            with told(f"dealing with a letter of {self._topic}", log.bootstrap):
                return act(log.settings, self._topic)

        return await loaded(run)


def editable(data: bytes | None) -> tuple[str, str]:
    """A value as text that can be edited without loss, and the form it is in."""
    if data is None:
        return "", "text"
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return data.hex(), "hex"
