"""The state of a key after one of its changes as HTML, with what changed marked; pure.

Called by the slider of the page on time travel. Everything that comes from a record is escaped here.
"""

from __future__ import annotations

import html
import json
from typing import Any

from headwater.console.values import coloured, one_line
from headwater.views.folding.state import Change

OPS = {
    "c": "created",
    "u": "updated",
    "d": "deleted",
    "r": "read by the snapshot",
    "t": "table emptied",
    "put": "written",
    "tombstone": "deleted (tombstone)",
}
LONG = 60
_ABSENT = object()


def op_of(change: Change) -> str:
    return OPS.get(change.op, change.op)


def state_html(change: Change) -> str:
    """A table of columns; those that the change touched are marked, with what they were."""
    if change.row is None:
        return _gone(change)
    if not isinstance(change.row, dict):
        before = change.changed.get("", [_ABSENT])[0]
        return _table([_line("", change.row, before, "" in change.changed)])
    lines = []
    for name, value in change.row.items():
        before = change.changed[name][0] if name in change.changed else _ABSENT
        lines.append(_line(name, value, before, name in change.changed))
    for name, (before, _) in change.changed.items():
        if name not in change.row:
            lines.append(_removed(name, before))
    return _table(lines)


def change_line(change: Change) -> str:
    """What a change did, on one line of plain text."""
    if change.row is None:
        return op_of(change)
    parts = []
    for name, (old, new) in change.changed.items():
        said = _plain(new) if old is None else f"{_plain(old)} → {_plain(new)}"
        parts.append(f"{name}: {said}" if name else said)
    return one_line(", ".join(parts)) if parts else "nothing changed"


def _gone(change: Change) -> str:
    lines = [_removed(name, before) for name, (before, _) in change.changed.items()]
    word = html.escape(op_of(change))
    return f'<p class="hw-gone">No row: {word}.</p>{_table(lines) if lines else ""}'


def _table(lines: list[str]) -> str:
    head = "<thead><tr><th>Column</th><th>Value</th><th>Before</th></tr></thead>"
    return f'<table class="hw-fields">{head}<tbody>{"".join(lines)}</tbody></table>'


def _line(name: str, value: Any, before: Any, is_changed: bool) -> str:
    mark = ' class="hw-changed"' if is_changed else ""
    was = ""
    if is_changed:
        was = (
            "<i>new</i>" if before is None or before is _ABSENT else f"<del>{_value(before)}</del>"
        )
    return f'<tr{mark}><th scope="row">{html.escape(name)}</th><td>{_value(value)}</td><td>{was}</td></tr>'


def _removed(name: str, before: Any) -> str:
    return (
        f'<tr class="hw-changed hw-removed"><th scope="row">{html.escape(name)}</th>'
        f"<td><i>gone</i></td><td><del>{_value(before)}</del></td></tr>"
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return html.escape(value) or "<i>empty</i>"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LONG:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return f'<span class="hw-value-in">{coloured(text).rstrip()}</span>'


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text, 40)
