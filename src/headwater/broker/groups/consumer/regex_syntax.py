"""RE2's syntax, as far as it matters for topic names: from text to a tree, or `BadRegex`.

`regex` builds its machine of the tree. Topic names are ASCII letters, digits, '.', '_' and '-', so
sets of letters are sets of those 65. Understood: literals, `.`, classes with ranges, negation and
`[:alpha:]`, `\\d \\w \\s` and their opposites, `\\pN` and `\\p{L}` for the common ones, `\\Q…\\E`, groups
of all kinds, `|`, `* + ? {n,m}` greedy or not, flags `i s m U`, and `^ $ \\A \\z`.

    node = ("letters", frozenset) | ("sequence", [node…]) | ("either", [node…])
         | ("repeat", node, low, high or None) | ("anchor", "start" or "end")
"""

from __future__ import annotations

import string
from typing import Any

LENGTH_MAX = 1_000
DEPTH_MAX = 100
REPEAT_MAX = 1_000
"""RE2's bound on {n,m}."""

Letters = frozenset[str]
Node = tuple[Any, ...]

DIGITS = frozenset(string.digits)
UPPER = frozenset(string.ascii_uppercase)
LOWER = frozenset(string.ascii_lowercase)
ALPHA = UPPER | LOWER
ALL = ALPHA | DIGITS | frozenset("._-")
WORD = ALPHA | DIGITS | {"_"}
NONE: Letters = frozenset()

ESCAPES = {"d": DIGITS, "w": WORD, "s": NONE}
CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
PROPERTIES = {
    "L": ALPHA,
    "Lu": UPPER,
    "Ll": LOWER,
    "N": DIGITS,
    "Nd": DIGITS,
    "P": frozenset("._-"),
    "Latin": ALPHA,
    "Greek": NONE,
    "Cyrillic": NONE,
}
NAMED = {
    "alnum": ALPHA | DIGITS,
    "alpha": ALPHA,
    "ascii": ALL,
    "blank": NONE,
    "cntrl": NONE,
    "digit": DIGITS,
    "graph": ALL,
    "lower": LOWER,
    "print": ALL,
    "punct": frozenset("._-"),
    "space": NONE,
    "upper": UPPER,
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
START: Node = ("anchor", "start")
END: Node = ("anchor", "end")


class BadRegex(ValueError):
    """Not an expression that we accept; the text says why."""


def parse(expression: str) -> Node:
    if len(expression) > LENGTH_MAX:
        raise BadRegex(f"it is longer than {LENGTH_MAX} characters")
    parser = _Parser(expression)
    node = parser.either(0)
    if parser.at < len(expression):
        raise BadRegex("unexpected )")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flags: set[str] = set()

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, wanted: str) -> bool:
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def next(self, what: str) -> str:
        letter = self.peek()
        if not letter:
            raise BadRegex(f"missing {what}")
        self.at += 1
        return letter

    def until(self, end: str, what: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise BadRegex(f"missing {what}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    # ---- structure -------------------------------------------------------------------------------

    def either(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise BadRegex("it is nested too deeply")
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else ("either", parts)

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while (letter := self.peek()) and letter not in "|)":
            if self.take("\\Q"):
                stop = self.text.find("\\E", self.at)
                stop = len(self.text) if stop < 0 else stop
                parts += [self.literal(each) for each in self.text[self.at : stop]]
                self.at = min(stop + 2, len(self.text))
                continue
            node = self.atom(depth)
            if node is not None:
                parts.append(self.repeated(node))
        return ("sequence", parts)

    def repeated(self, node: Node) -> Node:
        times = self.quantifier()
        if times is None:
            return node
        self.take("?")  # greedy or not is the same for a match as a whole
        if self.quantifier() is not None:
            raise BadRegex("invalid nested repetition operator")
        return ("repeat", node, *times)

    def quantifier(self) -> tuple[int, int | None] | None:
        for mark, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(mark):
                return times
        if self.peek() != "{":
            return None
        stop = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(stop, self.at)].partition(",")
        digits = low.isascii() and low.isdigit() and (not high or high.isdigit())
        if stop < 0 or not digits:
            return None  # RE2 takes such a brace as it stands
        self.at = stop + 1
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
            raise BadRegex("invalid repeat count")
        return least, most

    # ---- atoms -----------------------------------------------------------------------------------

    def atom(self, depth: int) -> Node | None:
        letter = self.next("atom")
        if letter == "(":
            return self.group(depth)
        if letter == "[":
            return ("letters", self.letter_class())
        if letter == ".":
            return ("letters", ALL)
        if letter in "*+?":
            raise BadRegex("missing argument to repetition operator")
        if letter in "^$":
            return START if letter == "^" else END
        if letter == "\\":
            return self.escape()
        return self.literal(letter)

    def literal(self, letter: str) -> Node:
        letters = frozenset(letter)
        if "i" in self.flags:
            letters = frozenset((letter.lower(), letter.upper()))
        return ("letters", letters)

    def group(self, depth: int) -> Node | None:
        flags = set(self.flags)
        if self.take("?"):
            if self.take("P<") or self.take("<"):
                if self.peek() in ("=", "!"):
                    raise BadRegex("invalid or unsupported Perl syntax")
                name = self.until(">", "closing >")
                if not name or not all(c == "_" or c.isalnum() for c in name):
                    raise BadRegex("invalid named capture")
            elif self.flag_group():
                return None
        node = self.either(depth + 1)
        if not self.take(")"):
            raise BadRegex("missing closing )")
        self.flags = flags
        return node

    def flag_group(self) -> bool:
        """`(?i)` changes the flags from here on; `(?i:…)` those of one group."""
        on, sign = set(self.flags), True
        while True:
            letter = self.next("closing )")
            if letter == "-" and sign:
                sign = False
            elif letter in "imsU":
                on = on | {letter} if sign else on - {letter}
            elif letter in ":)":
                self.flags = on
                return letter == ")"
            else:
                raise BadRegex("invalid or unsupported Perl syntax")

    def escape(self) -> Node:
        letter = self.next("argument of \\")
        if letter in "Az":
            return START if letter == "A" else END
        return ("letters", self.escaped(letter))

    def escaped(self, letter: str) -> Letters:
        if letter in ESCAPES:
            return ESCAPES[letter]
        if letter.lower() in ESCAPES:
            return ALL - ESCAPES[letter.lower()]
        if letter in "pP":
            name = self.until("}", "closing }") if self.take("{") else self.next("property")
            if name not in PROPERTIES:
                raise BadRegex(f"unknown property {name}")
            return PROPERTIES[name] if letter == "p" else ALL - PROPERTIES[name]
        if letter in CONTROL:
            return frozenset(CONTROL[letter])
        if letter == "x":
            return frozenset(self.hexadecimal())
        if letter.isalnum() or not letter.isascii():
            raise BadRegex("invalid escape sequence")
        return frozenset(letter)

    def hexadecimal(self) -> str:
        digits = (
            self.until("}", "closing }") if self.take("{") else self.text[self.at : self.at + 2]
        )
        if self.text[self.at - 1] != "}":
            self.at += 2
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise BadRegex("invalid escape sequence") from None

    def letter_class(self) -> Letters:
        negated = self.take("^")
        found: set[str] = set()
        first = True
        while first or self.peek() != "]":
            first = False
            found |= self.class_part()
        self.at += 1
        if "i" in self.flags:
            found |= {each.lower() for each in found} | {each.upper() for each in found}
        return ALL - found if negated else frozenset(found)

    def class_part(self) -> Letters:
        if self.take("[:"):
            negated = self.take("^")
            name = self.until(":]", "closing :]")
            if name not in NAMED:
                raise BadRegex("invalid character class range")
            return ALL - NAMED[name] if negated else NAMED[name]
        low = self.class_letters()
        if len(low) != 1 or self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.at += 1
        high = self.class_letters()
        (start,) = low
        if len(high) != 1 or start > min(high):
            raise BadRegex("invalid character class range")
        return frozenset(each for each in ALL if start <= each <= min(high)) | low | high

    def class_letters(self) -> Letters:
        letter = self.next("closing ]")
        return self.escaped(self.next("argument of \\")) if letter == "\\" else frozenset(letter)
