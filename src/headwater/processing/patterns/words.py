"""The words of a condition: what `expressions` reads it from. Every text has words; none is an error here."""

from __future__ import annotations

import re
from dataclasses import dataclass

END = "end"

_WORD = re.compile(
    r"\s+|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:(?:[bB][dD]|[lLsSyYdDfF])(?!\w))?)"
    r"|(?P<name>[^\W\d]\w*|`[^`]+`)"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign><=>|<=|>=|<>|!=|==|\|\||::|->|.)",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True)
class Word:
    kind: str
    text: str
    place: int
    value: object = None

    @property
    def lower(self) -> str:
        return self.text.lower() if self.kind != "string" else ""

    @property
    def end(self) -> int:
        return self.place + len(self.text)


def split(text: str) -> list[Word]:
    """The words of a text, and behind them one of the kind END."""
    words = []
    for found in _WORD.finditer(text):
        if (kind := found.lastgroup) is not None:
            words.append(Word(kind, found[0], found.start(), _value(kind, found[0])))
    words.append(Word(END, "", len(text.rstrip())))
    return words


def _value(kind: str, text: str) -> object:
    if kind == "number":
        return int(text) if text.isdigit() else None
    if kind == "string":
        plain = text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1]
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), plain)
    return None
