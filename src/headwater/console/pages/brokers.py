"""Brokers: the settings of each, or those given to all of them; some may change while they run."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from headwater.client import setting_details
from headwater.client.setting_details import Kind, Place
from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.addresses import link
from headwater.console.administration import topics as administration
from headwater.console.context import Visit
from headwater.console.forms.settings import SettingsTable
from headwater.console.live import loaded
from headwater.console.pages import Page
from headwater.project.roles import Role

ALL = "all"


async def show(visit: Visit) -> None:
    elements.heading(
        "Broker settings",
        "The settings of the broker. Those that it reads only at its start are changed in its file.",
    )
    known = await loaded(partial(setting_details.brokers, visit.context.log))
    chosen = visit.query.get("broker") or known[0]
    if len(known) > 1:
        with ui.element("div").classes("hw-chips"):
            for each in [*known, ALL]:
                words = "all brokers" if each == ALL else f"broker {each}"
                ui.link(words, link("/brokers", broker=each)).classes("hw-chip")
    name = "" if chosen == ALL else chosen
    with elements.card(f"Settings of {Place(Kind.BROKER, name)}"):
        SettingsTable(
            visit,
            Place(Kind.BROKER, name),
            Action.CONFIGURE_BROKER,
            lambda wanted, dry_run: administration.configure_broker(
                visit, name, wanted, dry_run=dry_run
            ),
        )


PAGES = [
    Page("/brokers", "Broker settings", show, icon="tune", order=82, role=Role.OPERATOR),
]
