"""Dead letters: what nobody could handle, why, and how many wait; one topic of them is `letters`."""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from headwater.browse.dead_letters.survey import Survey, dead_letter_topics, open_letters
from headwater.client.errors import told
from headwater.client.log import TIMEOUT_S, Log
from headwater.console import elements, live
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.pages import Page
from headwater.console.pages.dead_letters.letters import show_one
from headwater.console.values import one_line

EVERY_S = 10.0
LOOKED_AT_MAX = 20_000
"""Letters read of each topic to count them: offsets would count the markers of transactions, too."""
_COLUMNS: list[dict[str, Any]] = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left", "sortable": True},
    {"name": "waiting", "label": "Waiting", "field": "waiting", "sortable": True},
    {
        "name": "reasons",
        "label": "Why they wait",
        "field": "reasons",
        "align": "left",
        "headerClasses": "hw-only-wide",
    },
]
_TOPIC = """
<q-td :props="props" class="hw-group-cell">
  <a class="hw-mono" :href="props.row.address">{{ props.value }}</a>
  <span class="hw-narrow-line hw-soft hw-small">{{ props.row.reasons }}</span></q-td>
"""
_REASONS = """
<q-td :props="props" class="hw-only-wide hw-clip hw-clip-value">{{ props.value }}</q-td>
"""


def show(visit: Visit) -> None:
    if topic := visit.topic():
        show_one(visit, topic)
        return
    elements.heading(
        "Dead letters",
        "What was rejected, could not be decoded or was refused: kept with its reason, to be sent back.",
    )

    def draw(found: list[Survey]) -> None:
        table.rows = [_row(each) for each in found]
        table.set_visibility(bool(found))
        none.set_visibility(not found)

    load = visit.context.history.checked(partial(surveys, visit.context.log))
    live.keep(load, draw, EVERY_S)
    with elements.card() as card:
        card.props["aria-label"] = "Topics of dead letters"
        table = ui.table(columns=_COLUMNS, rows=[], row_key="topic").classes("hw-list")
        table.props("flat")
        table.add_slot("body-cell-topic", _TOPIC)
        table.add_slot("body-cell-reasons", _REASONS)
        none = elements.absent(
            "There are no dead letters: nothing was rejected or given up.",
            "Topics named dlq.GROUP and NAME.dead-letters appear here by themselves.",
            icon="mark_email_read",
        )
        table.set_visibility(False)
        none.set_visibility(False)


def surveys(log: Log) -> list[Survey]:
    """Every dead-letter topic, counted."""
    with told("counting dead letters", log.bootstrap):
        names = dead_letter_topics(log.admin.list_topics(timeout=TIMEOUT_S).topics)
        found = []
        for name in names:
            with open_letters(log.settings, name) as letters:
                found.append(letters.survey(LOOKED_AT_MAX))
        return found


def _row(found: Survey) -> dict[str, Any]:
    more = "" if found.is_whole else "+"
    return {
        "topic": found.topic,
        "address": link("/dead-letters", topic=found.topic),
        "waiting": f"{found.waiting:,}{more}",
        "reasons": one_line(
            ", ".join(
                f"{reason or 'no reason given'} ({n:,})" for reason, n in found.reasons.items()
            )
            or "none waits"
        ),
    }


PAGES = [Page("/dead-letters", "Dead letters", show, icon="mark_email_unread", order=50)]
