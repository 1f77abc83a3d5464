"""Consumer groups: who reads, and how far behind; a group's own page is `group`."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from headwater.client import groups
from headwater.client.groups import Group
from headwater.console import elements, live
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.filtered_table import FilteredTable
from headwater.console.pages import Page
from headwater.console.pages.groups.group import show_one, state_of
from headwater.console.sentences import number

EVERY_S = 3.0
_NUMBERS = {"align": "right", "sortable": True}
_WORDS = {"align": "left", "sortable": True}
_WIDE = {"classes": "hw-only-wide", "headerClasses": "hw-only-wide"}
_COLUMNS: list[dict[str, Any]] = [
    {"name": "name", "label": "Group", "field": "name", **_WORDS},
    {"name": "state", "label": "State", "field": "state", **_WORDS, **_WIDE},
    {"name": "lag", "label": "Lag", "field": "lag", **_NUMBERS},
    {"name": "members", "label": "Members", "field": "members", **_NUMBERS, **_WIDE},
    {"name": "topics", "label": "Topics", "field": "topics", "align": "left", **_WIDE},
]
_NAME = """
<q-td :props="props" class="hw-group-cell">
  <a class="hw-mono" :href="props.row.address">{{ props.value }}</a>
  <span class="hw-narrow-line hw-soft hw-small">{{ props.row.state }}</span></q-td>
"""
_STATE = """
<q-td :props="props" class="hw-only-wide"><span :class="'hw-state hw-' + props.row.tone">
  <span class="hw-dot" aria-hidden="true"></span><span>{{ props.value }}</span></span></q-td>
"""
_LAG = '<q-td :props="props" class="hw-num">{{ props.row.lag_shown }}</q-td>'
_TOPICS = """
<q-td :props="props" class="hw-only-wide hw-mono hw-clip hw-clip-value">{{ props.value }}</q-td>
"""


def show(visit: Visit) -> None:
    if "id" in visit.query:
        show_one(visit, visit.query["id"])
        return
    elements.heading("Groups", "Who reads what, and how many records behind it is.")

    def draw(found: list[Group]) -> None:
        followed = visit.context.watch.queries.following()
        table.draw([row_of(each, followed) for each in found])

    load = visit.context.history.checked(partial(groups.listed, visit.context.log))
    live.keep(load, draw, EVERY_S)
    table = FilteredTable(
        "All groups",
        _COLUMNS,
        {"name": _NAME, "state": _STATE, "lag": _LAG, "topics": _TOPICS},
        (
            "There are no consumer groups yet.",
            "A consumer with a group.id makes one when it first reads; so does a running query.",
        ),
        filtered="Filter by name",
        per_page=(100, 500, 0),
        pages="Groups per page:",
    )


def row_of(group: Group, followed: Collection[str]) -> dict[str, Any]:
    word, tone = state_of(group, followed)
    return {
        "name": group.name,
        "address": link("/groups", id=group.name),
        "state": word,
        "tone": tone,
        "lag": group.lag,
        "lag_shown": number(group.lag),
        "members": len(group.members),
        "topics": ", ".join(group.topics) or "–",
    }


PAGES = [Page("/groups", "Groups", show, icon="groups", order=25)]
