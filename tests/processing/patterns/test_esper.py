"""Esper's `match_recognize` finds the same matches, where the two mean the same.

They do where each row fits one variable at most and a match is complete with its last row: Esper tells a
match as soon as it sees one, and where several ways are possible it has an order of its own. With `skip to
next row`, patterns of which two matches can end with the same row are left out: Esper 9.0 tells of neither.
"""

from __future__ import annotations

import random

import pytest

from bench.processing.esper import ask
from headwater.testing.kafka_jars import QUICK_JVM, MissingServer
from tests.compat.missing import skip_or_fail
from tests.conftest import SOAK
from tests.processing.patterns.machines import found
from tests.processing.patterns.reference import Row

VALUE = {"A": 0, "B": 1, "C": None, "Z": 2}
SQL = {"A": "x = 0", "B": "x = 1", "C": "x is null", "Z": "x = 2"}
# The pattern, and which of its variables Esper holds to have several rows.
QUICK = {"(A B? C)* Z": "ABC", "(A B | B C) Z": "", "A{2} B{1,2} Z": "AB"}
MORE = {
    "A B+ Z": "B",
    "A B* C Z": "B",
    "A B? C* Z": "C",
    "(A | B) C* Z": "C",
    "(A B)+ Z": "AB",
    "A+? B Z": "A",
    "A{2,} Z": "A",
    "A (B | C)? Z": "",
}
SAME_END = ("(A B? C)* Z", "(A B)+ Z", "A+? B Z", "A{2,} Z")
PATTERNS = {**QUICK, **MORE} if SOAK else QUICK
NULL = 9  # Esper's rows are whole numbers


def statement(pattern: str, several: str, skip: str) -> str:
    names = [name for name in VALUE if name in pattern]
    asked = [f"first({n}.id) as {n}1" if n in several else f"{n}.id as {n}1" for n in names]
    define = [f"{n} as {n}.x = {NULL if VALUE[n] is None else VALUE[n]}" for n in names]
    every = "all matches" if skip == "to next row" else ""
    return (
        f"select * from Row match_recognize (partition by key measures {', '.join(asked)} {every} "
        f"after match skip {skip} pattern ({pattern}) define {', '.join(define)})"
    )


@pytest.mark.timeout(900)
def test_esper_finds_the_same_matches():
    choice = random.Random(5)
    questions, ours = [], []
    for pattern, several in PATTERNS.items():
        meet = pattern in SAME_END
        for skip in ("past last row",) if meet else ("past last row", "to next row"):
            xs = [
                choice.choice([0, 0, 1, 1, None, None, 2, 2]) for _ in range(400 if SOAK else 120)
            ]
            rows = [("k", n, NULL if x is None else x, n) for n, x in enumerate(xs)]
            questions.append((statement(pattern, several, skip), rows))
            define = {name: sql for name, sql in SQL.items() if name in pattern}
            mine = found(
                pattern, [Row(n, x) for n, x in enumerate(xs)], define, skip=skip, within="1 hour"
            )
            ours.append([(first, last) for first, last, _ in mine])
    try:
        answers = ask(questions, jvm=QUICK_JVM)
    except MissingServer as missing:
        skip_or_fail(f"Esper cannot run here: {missing}")
        raise AssertionError("unreachable") from missing
    for (text, _), answer, mine in zip(questions, answers, ours, strict=True):
        assert [span(line) for line in answer.matches] == mine, text
    assert sum(map(len, ours)) > 15


def span(line: str) -> tuple[int, int]:
    """The first and the last row of a match, from `A1=3,B1=null,Z1=7`."""
    told = dict(part.split("=") for part in line.split(","))
    rows = [int(value) for value in told.values() if value != "null"]
    return min(rows), int(told["Z1"])
