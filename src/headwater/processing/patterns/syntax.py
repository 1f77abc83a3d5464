"""The text of a pattern, read into a tree; the first step of `match`.

    pattern      = sequence { "|" sequence }
    sequence     = piece { piece }
    piece        = "$" | part [ quantifier ]
    part         = NAME | "!" NAME | "!" "(" NAME { "|" NAME } ")" | "(" pattern ")"
    quantifier   = ( "?" | "*" | "+" | "{n}" | "{n,m}" | "{n,}" | "{,m}" ) [ "?" ]

A quantifier with a second `?` is reluctant. What each part means is written down in docs/patterns.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.processing.patterns.errors import mistake

REPEAT_MAX = 1_000
"""The largest number in `{n,m}`: every repetition becomes a part of the automaton."""


@dataclass(frozen=True)
class One:
    """A row that is bound to a variable."""

    variable: str


@dataclass(frozen=True)
class Not:
    """A row that fits none of these variables; it is bound to none."""

    variables: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """`$`: no further row within the time."""


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Either:
    """Alternatives, the preferred one first."""

    choices: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    part: Node
    least: int
    most: int | None
    greedy: bool = True


Node = One | Not | End | Sequence | Either | Repeat

_TOKEN = re.compile(
    r"\s+|(?P<name>[^\W\d]\w*)|(?P<count>\{\s*(?P<n>\d*)\s*(?P<comma>,)?\s*(?P<m>\d*)\s*\})"
    r"|(?P<mark>[()|!$?*+])"
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: int
    least: int = 0
    most: int | None = None


def parse(text: str) -> Node:
    """The tree of a pattern, or a PatternError that points at the mistake."""
    return _Parser(text).whole()


def variables(node: Node) -> tuple[str, ...]:
    """Every variable of a pattern, negated ones too, in the order in which they first appear."""
    return tuple(dict.fromkeys(_names(node)))


def bound_variables(node: Node) -> frozenset[str]:
    """Those that rows can be bound to: named without `!` somewhere."""
    return frozenset(each.variable for each in _leaves(node) if isinstance(each, One))


def _names(node: Node) -> Iterator[str]:
    for leaf in _leaves(node):
        if isinstance(leaf, One):
            yield leaf.variable
        elif isinstance(leaf, Not):
            yield from leaf.variables


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node, Sequence):
        for part in node.parts:
            yield from _leaves(part)
    elif isinstance(node, Either):
        for choice in node.choices:
            yield from _leaves(choice)
    elif isinstance(node, Repeat):
        yield from _leaves(node.part)
    else:
        yield node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._at = 0

    def whole(self) -> Node:
        if not self._tokens:
            raise mistake(
                "the pattern is empty", self._text, 0, hint="name a variable, as in 'A B+ C'"
            )
        tree = self._pattern()
        if (token := self._peek()) is not None:
            raise self._wrong("this ) closes nothing", token)
        return tree

    def _split(self) -> Iterator[_Token]:
        place = 0
        while place < len(self._text):
            found = _TOKEN.match(self._text, place)
            if found is None:
                raise self._unknown(place)
            if found["name"]:
                yield _Token("name", found["name"], place)
            elif found["mark"]:
                yield _Token(found["mark"], found["mark"], place)
            elif found["count"]:
                yield self._count(found, place)
            place = found.end()

    def _unknown(self, place: int) -> Exception:
        if self._text[place] == "{":
            return mistake("{ begins a number of rows, as in {2} or {2,5}", self._text, place)
        if self._text[place] == "^":
            return mistake("a row that is not B is written !B", self._text, place)
        return mistake(f"{self._text[place]!r} has no meaning in a pattern", self._text, place)

    def _count(self, found: re.Match[str], place: int) -> _Token:
        if not found["n"] and not found["m"]:
            raise mistake("how many rows? {2}, {2,5}, {2,} or {,5}", self._text, place)
        least = int(found["n"] or 0)
        most = least if not found["comma"] else int(found["m"]) if found["m"] else None
        if most is not None and most < least:
            raise mistake(f"at least {least} and at most {most} is impossible", self._text, place)
        if max(least, most or 0) > REPEAT_MAX:
            raise mistake(
                f"more than {REPEAT_MAX:,} repetitions are not possible", self._text, place
            )
        return _Token("count", found[0], place, least, most)

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self, kind: str) -> _Token | None:
        token = self._peek()
        if token is None or token.kind != kind:
            return None
        self._at += 1
        return token

    def _wrong(self, sentence: str, token: _Token | None) -> Exception:
        place = len(self._text.rstrip()) if token is None else token.place
        return mistake(sentence, self._text, place)

    def _pattern(self) -> Node:
        choices = [self._sequence()]
        while self._next("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else Either(tuple(choices))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (token := self._peek()) is not None and token.kind not in ("|", ")"):
            parts.append(self._piece(token))
        if not parts:
            raise self._wrong("a variable is missing here", self._peek())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _piece(self, token: _Token) -> Node:
        if self._next("$"):
            if (after := self._peek()) is not None and after.kind in ("?", "*", "+", "count"):
                raise self._wrong("$ is a point in time and cannot be repeated", after)
            return End()
        part = self._part(token)
        if (found := self._quantifier()) is None:
            return part
        if (after := self._peek()) is not None and after.kind in ("?", "*", "+", "count"):
            raise self._wrong("a second quantifier needs parentheses around the first", after)
        least, most, greedy = found
        return Repeat(part, least, most, greedy)

    def _part(self, token: _Token) -> Node:
        if self._next("name"):
            return One(token.text)
        if self._next("!"):
            return self._negated()
        if self._next("("):
            inside = self._pattern()
            if self._next(")") is None:
                raise self._wrong("this ( is never closed", token)
            return inside
        raise self._wrong(f"{token.text} needs something before it", token)

    def _negated(self) -> Node:
        if (name := self._next("name")) is not None:
            return Not((name.text,))
        sentence = "! stands before a variable, !B, or before several, !(B | C)"
        if self._next("(") is None:
            raise self._wrong(sentence, self._peek())
        names: list[str] = []
        while True:
            if (name := self._next("name")) is None:
                raise self._wrong(sentence, self._peek())
            names.append(name.text)
            if self._next(")"):
                return Not(tuple(dict.fromkeys(names)))
            if self._next("|") is None:
                raise self._wrong(sentence, self._peek())

    def _quantifier(self) -> tuple[int, int | None, bool] | None:
        bounds: tuple[int, int | None] | None = None
        if self._next("?"):
            bounds = (0, 1)
        elif self._next("*"):
            bounds = (0, None)
        elif self._next("+"):
            bounds = (1, None)
        elif (token := self._next("count")) is not None:
            bounds = (token.least, token.most)
        if bounds is None:
            return None
        return (*bounds, self._next("?") is None)
