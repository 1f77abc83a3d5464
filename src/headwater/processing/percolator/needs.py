"""What a query needs to find anything: words that must occur. Pure.

tantivy has no way to ask a parsed query what it is made of, but shows it as text, after its own analysis of
the words. That text is read here. What is not understood, now or in a later version of tantivy, is taken to
need nothing, and then the query is simply always tried: this may cost time, never a match.

    +disk +(full OR failing)      one of disk, and one of full, failing
    error "out of memory"         one of error, memory: where one side is enough, the best word of each
    price:>5                      nothing that is a word: always tried
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Word = tuple[int, str]
"""A field's number in the schema, and a word in it."""
Needs = tuple[frozenset[Word], ...] | None
"""Of each of these, one word must occur; the first is the best to look for. None: always to be tried."""

_TEXT = r'"(?:[^"\\]|\\.)*"'
_TERM = rf"Term\(field=(\d+), type=Str, ({_TEXT})\)"
_PIECE = re.compile(
    rf"""(?P<boolean>BooleanQuery\ \{{\ subqueries:\ \[)
    |(?P<occur>\((?:Must|MustNot|Should),\ )
    |(?P<term>TermQuery\(Term\(field=\d+,\ type=Str,\ {_TEXT}\)\))
    |(?P<phrase>Phrase(?:Prefix)?Query\ \{{\ field:\ Field\(\d+\),\ phrase_terms:\ \[
        (?:\(\d+,\ Term\(field=\d+,\ type=Str,\ {_TEXT}\)\)(?:,\ )?)+\]
        (?:,\ prefix:\ \(\d+,\ Term\(field=\d+,\ type=Str,\ {_TEXT}\)\))?,\ \w+:\ \d+\ \}})
    |(?P<set>TermSetQuery\ \{{\ terms_map:\ \{{Field\(\d+\):\ \[
        (?:Term\(field=\d+,\ type=Str,\ {_TEXT}\)(?:,\ )?)*\]\}}\ \}})
    |(?P<boost>Boost\(query=)
    |(?P<nothing>EmptyQuery)
    |(?P<no_word>AllQuery|RangeQuery\ \{{\ bounds:\ BoundsRange\ \{{\ [^{{}}"]*\ \}}\ \}}
        |ExistsQuery\ \{{[^{{}}]*\}}|TermQuery\(Term\(field=\d+,\ type=[^()]*\)\))""",
    re.VERBOSE,
)
_END_OF_BOOLEAN = re.compile(r"\], minimum_number_should_match: \d+ \}")
_END_OF_OCCUR = re.compile(r"\)(?:, )?")
_END_OF_BOOST = re.compile(r", boost=[-\d.e]+\)")
_WORDS = re.compile(_TERM)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|(.))")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "'": "'", "\\": "\\"}


_QUOTED = re.compile(_TEXT)
# tantivy makes these two of every date that it has not, and documents have them for the same reason.
_OUTSIDE = re.compile(r"type=Date, (?:1677-09-21T00:12:4[34]|2262-04-11T23:47:16)(?:\.\d+)?Z")
# tantivy panics at bounds of two types, and a struct's fields have none of their own.
_IN_STRUCT = r"_bound: \w+\(Term\(field=\d+, type=Json, path=.*?, type=(\w+)"
_BOUNDS = re.compile(rf"lower{_IN_STRUCT}[^{{}}]*upper{_IN_STRUCT}")
_MOMENT = re.compile(r"(?<![\w-])([-+]?\d{4,6})-\d\d-\d\d[Tt]\d\d:\d\d")
_YEARS = range(1678, 2262)
_FRACTION = re.compile(r"type=Date, [^)]*\.\d+Z")
_NO_NUMBER = re.compile(r"type=F64, (?:NaN|-?inf|-0(?:\.0)?)\)")


def unanswerable(text: str, shown: str) -> str | None:
    """Why a query, written so and shown so by `repr`, would find something else than it asks for."""
    bare = _QUOTED.sub("", shown)
    # In a struct such a date would be taken for words.
    far = "type=Json" in bare and any(int(year) not in _YEARS for year in _MOMENT.findall(text))
    if far or _OUTSIDE.search(bare):
        return "dates are between 1677-09-21 and 2262-04-11; write * where there is no bound"
    if any(lower != upper for lower, upper in _BOUNDS.findall(bare)):
        return (
            "in a struct, write bounds of two kinds apart: (+a.b:>=9 +a.b:<=9.5) for a.b:[9 TO 9.5]"
        )
    if _FRACTION.search(bare):
        return "dates are compared by the second; leave out its fraction"
    if _NO_NUMBER.search(bare):
        return "numbers are finite, and zero has no sign; write * where there is no bound"
    return None


class _Strange(Exception):
    """The text is not of the form that is known."""


def needs(shown: str) -> Needs:
    """Of a query as `repr` shows it."""
    if not (shown.startswith("Query(") and shown.endswith(")")):
        return None
    try:
        found, end = _node(shown, len("Query("))
    except _Strange:
        return None
    return found if end == len(shown) - 1 else None


def _node(shown: str, at: int) -> tuple[Needs, int]:
    """What the query that begins there needs, and where it ends."""
    piece = _PIECE.match(shown, at)
    if piece is None:
        raise _Strange
    kind = piece.lastgroup
    if kind == "boolean":
        return _boolean(shown, piece.end())
    if kind == "boost":
        found, end = _node(shown, piece.end())
        return found, _after(_END_OF_BOOST, shown, end)
    if kind == "no_word":
        return None, piece.end()
    if kind == "nothing":
        return (frozenset(),), piece.end()
    words = [(int(field), _unescaped(text)) for field, text in _WORDS.findall(piece[0])]
    if kind == "set":
        return (frozenset(words),), piece.end()
    if kind == "phrase" and piece[0].startswith("PhrasePrefix"):
        words.pop()  # the last one is only the beginning of a word
    if kind not in ("term", "phrase"):
        raise _Strange
    return _best_first(frozenset([word]) for word in words), piece.end()


def _boolean(shown: str, at: int) -> tuple[Needs, int]:
    musts: list[Needs] = []
    shoulds: list[Needs] = []
    while (piece := _PIECE.match(shown, at)) is not None and piece.lastgroup == "occur":
        found, end = _node(shown, piece.end())
        at = _after(_END_OF_OCCUR, shown, end)
        if piece[0] == "(Must, ":
            musts.append(found)
        elif piece[0] == "(Should, ":
            shoulds.append(found)
    return _combined(musts, shoulds), _after(_END_OF_BOOLEAN, shown, at)


def _combined(musts: list[Needs], shoulds: list[Needs]) -> Needs:
    known = [clause for each in musts if each is not None for clause in each]
    if known:
        return _best_first(known)
    if musts or not shoulds:
        return None
    united: set[Word] = set()
    for each in shoulds:  # where nothing must occur, one of these has to
        if each is None:
            return None
        united |= each[0]
    return (frozenset(united),)


def _best_first(clauses: Iterable[frozenset[Word]]) -> Needs:
    """Few words before many, and long ones, which are likely rare, before short ones."""
    return tuple(sorted(clauses, key=lambda words: (len(words), -_length(words)))) or None


def _after(pattern: re.Pattern[str], shown: str, at: int) -> int:
    found = pattern.match(shown, at)
    if found is None:
        raise _Strange
    return found.end()


def _length(words: frozenset[Word]) -> int:
    return min((len(word) for _, word in words), default=0)


def _unescaped(text: str) -> str:
    """A text as Rust shows it."""
    if "\\" not in text:
        return text[1:-1]

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[2] not in _PLAIN:
            raise _Strange
        return _PLAIN[found[2]]

    return _ESCAPE.sub(one, text[1:-1])
