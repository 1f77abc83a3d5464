"""A whole match, read and checked, as plain data: what travels to Spark's workers.

Made by `plan` from the words of a call; knows nothing of Spark, which is asked through `Typing`. What a row
has to bring along is said here: a bit for each variable (whether the part of its condition that only
concerns the row holds), and the values of `columns`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headwater.processing.durations import Duration, micros
from headwater.processing.patterns.automaton import Automaton, build
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.expressions import conditions, measure
from headwater.processing.patterns.memory import FIRST_ROW, LAST_ROW
from headwater.processing.patterns.syntax import bound_variables, parse, variables
from headwater.processing.patterns.trees import RowsReference, Tree, Typed, rows, rows_references

VARIABLES_MAX = 62
PAST_LAST_ROW, TO_NEXT_ROW = "past last row", "to next row"
_SKIP = re.compile(r"to\s+(first|last)\s+(\w+)")


class Typing(Protocol):
    """Who says what a tree means, and of which types its parts are: Spark."""

    ansi: bool

    def __call__(self, tree: Tree, where: str) -> Typed: ...


@dataclass(frozen=True)
class Plan:
    automaton: Automaton
    variables: tuple[str, ...]
    """Variable n has bit n."""
    row_conditions: tuple[str, ...]
    """For each variable, SQL over the row; empty where it always holds."""
    tests: tuple[tuple[Typed, ...], ...]
    """For each variable, what must hold besides, in view of the rows before."""
    within_us: int
    skip: str | RowsReference
    """One of the two words, or which row is the first that may begin the next match."""
    slots: tuple[RowsReference, ...]
    decisive: int
    """So many of the slots, the first ones, have a part in conditions."""
    columns: tuple[str, ...]
    measures: tuple[tuple[str, Typed], ...]
    timeouts: bool
    ansi: bool
    """Whether what has no result stops the query, as Spark is set."""
    fingerprint: str
    """Of all that was said: state that another match left is of no use to this one."""


def plan(
    pattern: str,
    define: Mapping[str, str],
    within: Duration,
    skip: str,
    measures: Mapping[str, str],
    timeouts: bool,
    typing: Typing,
    more: str = "",
) -> Plan:
    """Read a call's words; `more` is whatever else decides what state means."""
    tree = parse(pattern)
    names = variables(tree)
    _check_names(names, define)
    known = frozenset(names)
    parts = [conditions(define.get(name, ""), known, name) for name in names]
    tests = tuple(
        tuple(typing(p.tree, f"define {name!r}") for p in each if p.tree is not None)
        for name, each in zip(names, parts, strict=True)
    )
    wanted = {
        name: typing(measure(text, known, where), where)
        for name, text in measures.items()
        if (where := f"measures {name!r}")
    }
    skipping = _skip(skip, bound_variables(tree))
    decisive = _slots([tree for each in tests for tree in each])
    others = [slot for slot in _slots(list(wanted.values())) if slot not in decisive]
    if isinstance(skipping, RowsReference):
        others.append(skipping)
    slots = (*decisive, *others)
    return Plan(
        automaton=build(tree),
        variables=names,
        row_conditions=tuple(
            " AND ".join(f"({p.sql})" for p in each if p.tree is None and p.sql.strip())
            for each in parts
        ),
        tests=tests,
        within_us=micros(within),
        skip=skipping,
        slots=slots,
        decisive=len(decisive),
        columns=_columns(slots, [tree for each in tests for tree in each]),
        measures=tuple(wanted.items()),
        timeouts=timeouts,
        ansi=typing.ansi,
        fingerprint=_fingerprint(
            pattern,
            sorted(define.items()),
            micros(within),
            skip,
            list(measures.items()),
            timeouts,
            more,
        ),
    )


def _check_names(names: tuple[str, ...], define: Mapping[str, str]) -> None:
    if len(names) > VARIABLES_MAX:
        raise PatternError(
            f"a pattern has at most {VARIABLES_MAX} variables; this has {len(names)}"
        )
    for name in define:
        if name not in names:
            raise PatternError(
                f"define {name!r}: there is no such variable in the pattern",
                hint=f"it has {', '.join(names)}",
            )


def _skip(words: str, bound: frozenset[str]) -> str | RowsReference:
    said = " ".join(words.split())
    if said in (PAST_LAST_ROW, TO_NEXT_ROW):
        return said
    found = _SKIP.fullmatch(said)
    if found is None:
        raise PatternError(
            f"skip={words!r} has no meaning",
            hint="'past last row', 'to next row', 'to first A' or 'to last A'",
        )
    if found[2] not in bound:
        raise PatternError(
            f"skip={words!r}: no row is ever bound to {found[2]!r}",
            hint=f"rows are bound to {', '.join(sorted(bound))}",
        )
    return RowsReference(FIRST_ROW if found[1] == "first" else LAST_ROW, found[2], None)


def _slots(trees: list[Typed]) -> list[RowsReference]:
    return list(dict.fromkeys(slot for tree in trees for slot in rows_references(tree)))


def _columns(slots: tuple[RowsReference, ...], tests: list[Typed]) -> tuple[str, ...]:
    asked = [slot.sql for slot in slots if slot.sql is not None]
    asked += [sql for tree in tests for sql in rows(tree)]
    return tuple(dict.fromkeys(asked))


def _fingerprint(*said: object) -> str:
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
