"""Who changed what: the newest that the broker wrote down, for administrators."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

from headwater.browse.audit import PART, Entry, newest, sentence
from headwater.console import elements, live
from headwater.console.context import Visit
from headwater.console.filtered_table import FilteredTable
from headwater.console.pages import Page
from headwater.project.roles import Role

EVERY_S = 5.0
SHOWN = 200
_WIDE: dict[str, object] = {"classes": "hw-only-wide", "headerClasses": "hw-only-wide"}
_COLUMNS: list[dict[str, object]] = [
    {"name": "at", "label": "Time", "field": "at", "align": "left", "sortable": True, **_WIDE},
    {"name": "who", "label": "Who", "field": "who", "align": "left", "sortable": True},
    {"name": "what", "label": "What", "field": "what", "align": "left", "sortable": True, **_WIDE},
    {"name": "name", "label": "Of", "field": "name", "align": "left", "sortable": True},
    {"name": "details", "label": "Details", "field": "details", "align": "left", **_WIDE},
    {"name": "outcome", "label": "Outcome", "field": "outcome", "align": "left", "sortable": True},
]
_WHO = """
<q-td :props="props" class="hw-audit-cell"><div>{{ props.value }}</div>
  <div class="hw-soft hw-small">{{ props.row.client }}</div>
  <div class="hw-soft hw-small hw-narrow-line">{{ props.row.at }}</div></q-td>
"""
_DETAILS = """
<q-td :props="props" class="hw-only-wide hw-mono hw-small hw-wrap" style="min-width: 14rem">
  {{ props.value }}</q-td>
"""
_OF = """
<q-td :props="props" class="hw-audit-cell hw-audit-of">
  <span class="hw-narrow-line hw-soft hw-small">{{ props.row.what }}</span> {{ props.value }}</q-td>
"""
_OUTCOME = """
<q-td :props="props"><span :class="'hw-state hw-' + props.row.tone">
  <span class="hw-dot" aria-hidden="true"></span><span>{{ props.value }}</span></span></q-td>
"""


def show(visit: Visit) -> None:
    elements.heading(
        "Audit",
        "Who changed topics, settings, users, permissions, quotas, groups, webhooks and parts; newest first.",
    )

    def draw(found: list[Entry]) -> None:
        table.draw([row_of(number, each) for number, each in enumerate(found)])

    live.keep(partial(_load, visit), draw, EVERY_S)
    table = FilteredTable(
        "Changes",
        _COLUMNS,
        {"who": _WHO, "name": _OF, "details": _DETAILS, "outcome": _OUTCOME},
        (
            "Nothing was changed yet.",
            "Only headwater's own broker writes changes down, unless audit.enable is off. Where it has "
            "permissions, the console's user needs one that names __headwater_changes.",
        ),
        key="id",
    )


def _load(visit: Visit) -> list[Entry]:
    """What the log has, and what was asked of the project's own parts while that could not be written."""
    found = newest(visit.context.log, SHOWN)
    told = Counter((each.on_behalf_of, each.what, each.name) for each in found if each.kind == PART)
    for deed in reversed(visit.context.watch.parts.history()[-SHOWN:]):
        if told[deed.by, deed.what, deed.name] > 0:
            told[deed.by, deed.what, deed.name] -= 1
        else:
            found.append(Entry(deed.at_ms, deed.by, "", "", deed.what, PART, deed.name))
    return sorted(found, key=lambda entry: -entry.at_ms)[:SHOWN]


def row_of(number: int, entry: Entry) -> dict[str, object]:
    """As the table shows it."""
    return {
        "id": number,
        "at": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at_ms / 1000)),
        "who": entry.who or "unknown",
        "client": " from ".join(filter(None, (entry.client_id, entry.host))),
        "what": entry.what,
        "name": f"{entry.kind} {entry.name}",
        "details": sentence(entry.details),
        "outcome": "done" if entry.error is None else entry.error,
        "tone": "good" if entry.error is None else "bad",
    }


PAGES = [
    Page("/audit", "Audit", show, icon="fact_check", order=90, role=Role.ADMINISTRATOR),
]
