"""Schemas: the subjects of the log's registry, and two versions of one side by side, differences marked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nicegui import ui

from headwater.browse.line_pairs import Pair, side_by_side
from headwater.browse.subjects import Subject, Subjects, lines
from headwater.console import elements, live
from headwater.console.addresses import link
from headwater.console.context import Visit
from headwater.console.filtered_table import FilteredTable
from headwater.console.pages import Page
from headwater.schemas.records import Version

EVERY_S = 5.0
LINES_MAX = 5_000
"""A browser draws no more in a moment."""
_SUFFIXES = ("-value", "-key")
_WORDS = {"same": "", "changed": "changed", "added": "added", "gone": "gone"}
_SIGNS = {"same": " ", "changed": "~", "added": "+", "gone": "−"}
_COLUMNS: list[dict[str, object]] = [
    {"name": "subject", "label": "Subject", "field": "subject", "align": "left", "sortable": True},
    {"name": "type", "label": "Type", "field": "type", "align": "left", "sortable": True},
    {
        "name": "versions",
        "label": "Versions",
        "field": "versions",
        "align": "right",
        "sortable": True,
    },
    {"name": "id", "label": "Latest id", "field": "id", "align": "right", "sortable": True},
    {
        "name": "level",
        "label": "Compatibility",
        "field": "level",
        "align": "left",
        "sortable": True,
    },
]
_SUBJECT = """
<q-td :props="props" style="white-space: normal; overflow-wrap: anywhere">
  <a class="hw-link" :href="props.row.link">{{ props.value }}</a></q-td>
"""


def show(visit: Visit) -> None:
    name = visit.query.get("subject")
    subjects = Subjects(visit.context.log)
    if name:
        _one(visit, name, subjects)
    else:
        _all(subjects)


def _all(subjects: Subjects) -> None:
    elements.heading("Schemas", "What the records of topics are, by the registry's topic _schemas.")

    live.keep(subjects.all, lambda found: table.draw([_row(each) for each in found]), EVERY_S)
    table = FilteredTable(
        "Subjects",
        _COLUMNS,
        {"subject": _SUBJECT},
        (
            "No schema is registered in this log.",
            "headwater schemas serve, or [schemas] in headwater.toml, serves a registry beside it.",
        ),
        key="subject",
    )


def _row(subject: Subject) -> dict[str, object]:
    return {
        "subject": subject.name,
        "type": subject.latest.schema.kind,
        "versions": len(subject.versions),
        "id": subject.latest.id,
        "level": subject.level,
        "link": link("/schemas", subject=subject.name),
    }


def _one(visit: Visit, name: str, subjects: Subjects) -> None:
    elements.heading(
        name, "Two versions side by side: what is new, what is gone, what has changed."
    )
    shown: list[object] = []

    def draw(found: Subject | None) -> None:
        if shown == [found]:
            return
        shown[:] = [found]
        place.clear()
        with place:
            if found is None:
                elements.absent(f"There is no subject {name}.", "It may have been deleted.")
            else:
                _versions(visit, found)

    live.keep(partial(subjects.one, name), draw, EVERY_S)
    place = ui.element("div").classes("full-width")


def _versions(visit: Visit, subject: Subject) -> None:
    numbers = [each.version for each in subject.versions]
    new = _asked(visit, "new", numbers, numbers[-1])
    old = _asked(visit, "old", numbers, numbers[max(0, numbers.index(new) - 1)])
    chosen = {each.version: each for each in subject.versions}
    with ui.element("div").classes("hw-tools"):
        for label, which, number in (("Older", "old", old), ("Newer", "new", new)):
            ui.select(
                {n: f"version {n}, id {chosen[n].id}" for n in numbers},
                value=number,
                label=label,
                on_change=lambda event, which=which: ui.navigate.to(
                    link(
                        "/schemas",
                        subject=subject.name,
                        **{"old": old, "new": new, which: event.value},
                    )
                ),
            ).props("dense outlined").classes("hw-goto")
        topic = _topic_of(subject.name)
        if topic is not None:
            ui.link(f"Topic {topic}", f"/topics/{topic}").classes("hw-link")
    _facts(subject, chosen[new])
    _sides(chosen[old], chosen[new])


def _asked(visit: Visit, name: str, numbers: Sequence[int], otherwise: int) -> int:
    said = visit.query.get(name, "")
    return int(said) if said.isdecimal() and int(said) in numbers else otherwise


def _topic_of(subject: str) -> str | None:
    end = next((each for each in _SUFFIXES if subject.endswith(each)), None)
    return None if end is None or ":" in subject else subject.removesuffix(end)


def _facts(subject: Subject, version: Version) -> None:
    said = [version.schema.kind, f"{len(subject.versions)} versions", f"level {subject.level}"]
    said += [f"refers to {each.subject} {each.version}" for each in version.schema.references]
    ui.label(" · ".join(said)).classes("hw-soft")


def _sides(old: Version, new: Version) -> None:
    if old.version == new.version:
        pairs = [Pair(None, line, "same") for line in lines(new.schema)]
    else:
        pairs = side_by_side(lines(old.schema), lines(new.schema))
    counts = {mark: sum(each.mark == mark for each in pairs) for mark in _WORDS}
    said = [f"{counts[mark]} {word}" for mark, word in _WORDS.items() if word and counts[mark]]
    with elements.card() as card:
        card.props["aria-label"] = "Versions side by side"
        ui.label(", ".join(said) or "no difference").classes("hw-card-label")
        ui.html(_table(old, new, pairs[:LINES_MAX]), sanitize=False).classes(
            "full-width hw-sides-place"
        )
        if len(pairs) > LINES_MAX:
            ui.label(_rest(old, new, len(pairs) - LINES_MAX)).classes("hw-soft")


def _rest(old: Version, new: Version, count: int) -> str:
    """The subject is a stranger's word: it is for people to put in."""
    if old.version == new.version:
        return f"and {count:,} lines more: headwater schemas show SUBJECT {new.version}"
    return f"and {count:,} lines more: headwater schemas diff SUBJECT {old.version} {new.version}"


def _table(old: Version, new: Version, pairs: Sequence[Pair]) -> str:
    """Escaped here, line by line."""
    alone = old.version == new.version
    heads = [new] if alone else [old, new]
    head = "".join(f'<th scope="col">version {each.version}</th>' for each in heads)
    rows = []
    for each in pairs:
        sides = [each.new] if alone else [each.old, each.new]
        cells = "".join(
            f'<td class="hw-side{" hw-side-none" if side is None else ""}">'
            f"{elements.escaped(side or '')}</td>"
            for side in sides
        )
        word = _WORDS[each.mark] or "the same"
        sign = f'<td class="hw-sign" title="{word}" aria-label="{word}">{_SIGNS[each.mark]}</td>'
        rows.append(f'<tr class="hw-line-{each.mark}">{sign}{cells}</tr>')
    return (
        f'<table class="hw-sides"><thead><tr><th><span class="hw-hidden">change</span></th>{head}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


PAGES = [Page("/schemas", "Schemas", show, icon="schema", order=28)]
