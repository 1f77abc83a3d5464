"""What a query needs to find anything: words of which at least one must occur. Pure.

tantivy has no way to ask a parsed query what it is made of, but shows it as text, after its own analysis of
the words. That text is read here. What is not understood, now or in a later version of tantivy, is taken to
need nothing, and then the query is simply always tried: this may cost time, never a match.

    +disk +(full OR failing)      needs one of: disk        (the side with fewer words, then the longer)
    error "out of memory"         needs one of: error, memory
    price:>5                      needs nothing that is a word: always tried
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Word = tuple[int, str]
"""A field's number in the schema, and a word in it."""
Needs = frozenset[Word] | None
"""None: always to be tried. Empty: it finds nothing at all."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)|(?P<mark>[()\[\]{},:=]))"""
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|(.))")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "'": "'", "\\": "\\"}


class _Strange(Exception):
    """The text is not of the form that is known."""


class Node(NamedTuple):
    """`Name(…)` or `Name { … }`; what has no name in it is under its number."""

    name: str
    parts: dict[Any, Any]


def needs(shown: str) -> Needs:
    """Of a query as `repr` shows it."""
    try:
        tree = _Reader(shown).whole()
        if not isinstance(tree, Node) or tree.name != "Query":
            return None
        return _needs(tree.parts[0])
    except (_Strange, KeyError, IndexError, TypeError, ValueError):
        return None


def _needs(node: Any) -> Needs:
    known: dict[str, Callable[[Node], Needs]] = {
        "BooleanQuery": _boolean,
        "TermQuery": lambda each: _one([each.parts[0]]),
        "PhraseQuery": _phrase,
        "PhrasePrefixQuery": _phrase,
        "TermSetQuery": _any_of,
        "Boost": lambda each: _needs(each.parts["query"]),
        "EmptyQuery": lambda _: frozenset(),
    }
    found = known.get(node.name)
    return None if found is None else found(node)


def _boolean(node: Node) -> Needs:
    children = [(occur.name, child) for occur, child in node.parts["subqueries"]]
    musts = [_needs(child) for occur, child in children if occur == "Must"]
    if usable := [each for each in musts if each is not None]:
        return min(usable, key=lambda words: (len(words), -min(map(_length, words), default=0)))
    shoulds = [_needs(child) for occur, child in children if occur == "Should"]
    if musts or not shoulds:
        return None
    united: set[Word] = set()
    for each in shoulds:  # where nothing must occur, one of these has to
        if each is None:
            return None
        united |= each
    return frozenset(united)


def _phrase(node: Node) -> Needs:
    return _one([term for _, term in node.parts["phrase_terms"]])


def _any_of(node: Node) -> Needs:
    words = [_word(term) for terms in node.parts["terms_map"].values() for term in terms]
    return None if None in words else frozenset(each for each in words if each is not None)


def _one(terms: list[Node]) -> Needs:
    """All of these must occur, so any of them will do: the longest, which is likely the rarest."""
    words = [word for word in map(_word, terms) if word is not None]
    return frozenset([max(words, key=_length)]) if words else None


def _word(term: Node) -> Word | None:
    if term.name != "Term" or term.parts.get("type") != Node("Str", {}) or "path" in term.parts:
        return None  # a number, or a word within a JSON field
    return int(term.parts["field"]), str(term.parts[0])


def _length(word: Word) -> int:
    return len(word[1])


# ---- Rust's way to show a value ------------------------------------------------------------------------


class _Reader:
    """`Name { field: value }`, `Name(value, name=value)`, `[value]`, `(value, value)`, `{value: value}`."""

    def __init__(self, shown: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(shown.rstrip()):
            found = _TOKEN.match(shown, at)
            if found is None or found.lastgroup is None:
                raise _Strange(shown[at:])
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._at = 0

    def whole(self) -> Any:
        found = self._value()
        if self._at != len(self._tokens):
            raise _Strange
        return found

    def _value(self) -> Any:
        kind, text = self._next()
        if kind == "text":
            return _unescaped(text)
        if kind == "number":
            return float(text) if "." in text else int(text)
        if kind == "name":
            return self._node(text)
        if text == "[":
            return self._listed("]")
        if text == "(":
            return tuple(self._listed(")"))
        if text == "{":
            return dict(self._pairs())
        raise _Strange

    def _node(self, name: str) -> Node:
        if self._eat("("):
            return Node(name, dict(self._arguments()))
        if self._eat("{"):
            return Node(name, {_plain(key): value for key, value in self._pairs()})
        return Node(name, {})

    def _arguments(self) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        number = 0
        while not self._eat(")"):
            value = self._value()
            if isinstance(value, Node) and self._eat("="):
                found.append((value.name, self._value()))
            else:
                found.append((number, value))
                number += 1
            self._eat(",")
        return found

    def _pairs(self) -> list[tuple[Any, Any]]:
        found = []
        while not self._eat("}"):
            key = self._value()
            if not self._eat(":"):
                raise _Strange
            found.append((_hashable(key), self._value()))
            self._eat(",")
        return found

    def _listed(self, end: str) -> list[Any]:
        found = []
        while not self._eat(end):
            found.append(self._value())
            self._eat(",")
        return found

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise _Strange
        self._at += 1
        return self._tokens[self._at - 1]

    def _eat(self, mark: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == ("mark", mark):
            self._at += 1
            return True
        return False


def _hashable(key: Any) -> Any:
    return (key.name, *key.parts.items()) if isinstance(key, Node) else key


def _plain(key: Any) -> Any:
    """A field's name alone."""
    return key[0] if isinstance(key, tuple) and len(key) == 1 else key


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[2] not in _PLAIN:
            raise _Strange(text)
        return _PLAIN[found[2]]

    return _ESCAPE.sub(one, text[1:-1])
