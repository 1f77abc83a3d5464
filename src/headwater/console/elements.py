"""The few things that every page is made of: heading, figure, notice, button, state, table.

Called by pages, inside the frame. Each gives NiceGUI the classes of static/console.css, so that pages do not
speak of colours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal, ParamSpec

from nicegui import ui

from headwater.console.actions import Action
from headwater.console.context import Visit
from headwater.console.sentences import sentence_of

PRIMARY = "unelevated color=primary"
"""The look of the one button that does what a form is for."""
TOPIC_CELL = """
<q-td :props="props"><a class="hw-mono" :href="'/topics/' + props.value">{{ props.value }}</a></q-td>
"""
"""A cell of a table with the name of a topic, which leads to its page."""
Tone = Literal["good", "warn", "bad", "calm"]
Given = ParamSpec("Given")


def heading(title: str, sentence: str = "") -> None:
    """The one h1 of a page, and what the page is for."""
    with ui.element("header").classes("hw-heading"):
        ui.html(title, sanitize=escaped, tag="h1")
        if sentence:
            ui.label(sentence).classes("hw-soft")
    ui.page_title(f"{title} · headwater")


def fact(name: str, value: str) -> None:
    """A line of a list of facts (`dl`)."""
    with ui.element("dt"):
        ui.label(name)
    with ui.element("dd"):
        ui.label(value).classes("hw-wrap")


def section(title: str) -> None:
    """A heading of the second rank."""
    ui.html(title, sanitize=escaped, tag="h2")


@contextmanager
def card(label: str | None = None) -> Iterator[ui.element]:
    """A surface that holds what belongs together."""
    with ui.element("section").classes("hw-card") as made:
        if label:
            made.props["aria-label"] = label
            ui.label(label).classes("hw-card-label")
        yield made


def figure(label: str, value: str) -> ui.label:
    """A number with its name; returns the number's label, whose text may be changed later."""
    with ui.element("div").classes("hw-figure"):
        ui.label(label).classes("hw-figure-name")
        return ui.label(value).classes("hw-figure-value")


def state(word: str, tone: Tone) -> ui.element:
    """A state as a word with a dot: never by colour alone."""
    with ui.element("span").classes(f"hw-state hw-{tone}") as made:
        ui.element("span").classes("hw-dot").props('aria-hidden="true"')
        ui.label(word)
    return made


def absent(sentence: str, remedy: str = "", *, icon: str = "water_drop") -> ui.element:
    """Where something would be and is not: why, and what to do."""
    with ui.element("div").classes("hw-absent full-width") as made:
        ui.icon(icon).props('aria-hidden="true"')
        ui.label(sentence).classes("hw-absent-sentence")
        if remedy:
            ui.label(remedy).classes("hw-soft")
    return made


def loading() -> ui.element:
    """Where something comes in a moment; shown only to those who have to wait for it."""
    with ui.element("div").classes("hw-loading").props('role="status"') as made:
        ui.spinner("dots", size="2em")
        ui.label("Loading").classes("hw-hidden")
    return made


def trouble(error: BaseException) -> None:
    """An error in the page, as a sentence."""
    sentence, remedy = sentence_of(error)
    with ui.element("div").classes("hw-trouble").props('role="alert"'):
        ui.icon("error_outline").props('aria-hidden="true"')
        with ui.element("div"):
            ui.label(sentence).classes("hw-trouble-sentence")
            if remedy:
                ui.label(remedy).classes("hw-soft")


def notify(sentence: str, tone: Tone = "good") -> None:
    """A notice that goes by itself."""
    kinds: dict[Tone, Literal["positive", "warning", "negative", "info"]] = {
        "good": "positive",
        "warn": "warning",
        "bad": "negative",
        "calm": "info",
    }
    ui.notify(sentence, type=kinds[tone], position="bottom", multi_line=True)


def shown(
    do: Callable[Given, object | Awaitable[object]],
) -> Callable[Given, Awaitable[None]]:
    """`do`, with its errors as a notice."""

    async def asked(*given: Given.args, **named: Given.kwargs) -> None:
        try:
            outcome = do(*given, **named)
            if isinstance(outcome, Awaitable):
                await outcome
        except asyncio.CancelledError:
            raise
        except Exception as error:
            sentence, remedy = sentence_of(error)
            notify(f"{sentence.rstrip('.')}. {remedy or ''}".strip(), "bad")

    return asked


def guarded(
    visit: Visit, what: Action, do: Callable[Given, object | Awaitable[object]]
) -> Callable[Given, Awaitable[None]]:
    """`do` for those who may; errors are shown as a notice."""

    def allowed(*given: Given.args, **named: Given.kwargs) -> object | Awaitable[object]:
        visit.must(what)
        return do(*given, **named)

    return shown(allowed)


def action(
    visit: Visit,
    what: Action,
    text: str,
    do: Callable[[], object | Awaitable[object]],
    *,
    icon: str | None = None,
    props: str = "outline",
) -> ui.button:
    """A button that changes something: not there for those who may not, and refused to them by the server."""
    pressed = guarded(visit, what, do)
    if visit.may(what):
        return ui.button(text, on_click=pressed, icon=icon).props(f"no-caps {props}")
    # Whoever made it may show, enable and rename it: in here nobody sees that.
    with ui.element("div").classes("hw-never"):
        return ui.button(text, on_click=pressed, icon=icon)


async def confirmed(visit: Visit, what: Action, question: str, yes: str) -> bool:
    """Ask before something that cannot be taken back; whoever says yes must still be allowed to."""
    with ui.dialog() as dialog, ui.card().classes("hw-dialog"):
        ui.label(question)
        with ui.row().classes("justify-end full-width"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props(
                "flat no-caps autofocus"
            )
            ui.button(yes, on_click=lambda: dialog.submit(True)).props(
                "unelevated no-caps color=negative"
            )
    try:
        is_meant = bool(await dialog)
    finally:
        dialog.delete()
    if is_meant:
        visit.must(what)
    return is_meant


def escaped(text: str) -> str:
    """Text as HTML shows it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
