"""Keys, values and times as pages show them: one line for a table, highlighted for a panel; pure.

Called by the pages on topics, dead letters and time travel. Highlighting is Pygments'; its classes have their
colours in static/data.css. Everything that leaves here as HTML has been escaped.
"""

from __future__ import annotations

import html
from datetime import UTC, datetime

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import JsonLexer

LINE_CHARACTERS_MAX = 160
PANEL_CHARACTERS_MAX = 100_000
HIGHLIGHTED_CHARACTERS_MAX = 20_000
"""Beyond this, colours would cost more than they tell."""
HEX_WIDTH = 16

_LEXER = JsonLexer()
_FORMATTER = HtmlFormatter(nowrap=True)


def one_line(text: str, most: int = LINE_CHARACTERS_MAX) -> str:
    """As much of a text as fits in a cell."""
    line = " ".join(text[: most * 2].split())
    return line if len(line) <= most and len(text) <= most * 2 else line[: most - 1] + "…"


def moment(time_ms: int | None) -> str:
    """2026-11-15 15:00:00.125, in UTC."""
    if time_ms is None or time_ms < 0:
        return "–"
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)  # a producer may write any number there
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def coloured(text: str) -> str:
    """JSON as HTML; a long one is left plain, a very long one is cut, and says so."""
    cut = text[:PANEL_CHARACTERS_MAX]
    if len(cut) > HIGHLIGHTED_CHARACTERS_MAX:
        return plain(text)
    return str(highlight(cut, _LEXER, _FORMATTER))


def plain(text: str) -> str:
    cut = html.escape(text[:PANEL_CHARACTERS_MAX])
    if len(text) <= PANEL_CHARACTERS_MAX:
        return cut
    left = len(text) - PANEL_CHARACTERS_MAX
    return f'{cut}\n<span class="hw-cut">… {left:,} more characters are not shown</span>'


def hex_dump(data: bytes) -> str:
    """Offset, bytes and what of them is ASCII, sixteen to a line."""
    shown = data[: PANEL_CHARACTERS_MAX // 4]
    lines = []
    for at in range(0, len(shown), HEX_WIDTH):
        row = shown[at : at + HEX_WIDTH]
        text = "".join(chr(each) if 32 <= each < 127 else "·" for each in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{HEX_WIDTH * 3 - 1}}  {text}")
    if len(data) > len(shown):
        lines.append(f"… {len(data) - len(shown):,} more bytes are not shown")
    return html.escape("\n".join(lines))
