"""A pattern as an automaton: one position per row that it can take, each with what may come next.

    A (B | C)* D      positions   0:A  1:B  2:C  3:D
                      first       [0]
                      follow      0 → [1, 2, 3]   1 → [1, 2, 3]   2 → [1, 2, 3]   3 → [ACCEPT]

The lists are in the order of preference: a greedy quantifier puts going on before leaving, a reluctant
one after; of alternatives the left one comes first. Invariants: a position stands at most once in a
list; nothing follows ACCEPT in a list (it would never be preferred); AT_END means "if no further row
comes within the time". An empty iteration of a quantifier beyond its least number is no iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.syntax import (
    Either,
    End,
    Node,
    Not,
    One,
    Repeat,
    Sequence,
)

ACCEPT = -1
AT_END = -2
POSITIONS_MAX = 4_000
"""Repetitions multiply: (A{50} B){50} has 2,550 positions. Beyond this, a pattern is refused."""


@dataclass(frozen=True)
class Automaton:
    positions: tuple[One | Not, ...]
    first: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]


# What is reached without a row is found by calling: `go(after_end, empty)` notes what comes next.
# `after_end`: a `$` was passed, so no further row may be taken. `empty`: the iterations that were
# begun since the last row, each of which must take one before it may end.
_Step = Callable[[bool, frozenset[int]], None]


class _Builder:
    def __init__(self) -> None:
        self.positions: list[One | Not] = []
        self.continuations: list[_Step] = []
        self._found: list[int] = []
        self._seen: set[tuple[int, bool, frozenset[int]]] = set()
        self._started = False
        self._numbers = 0

    def reached(self, step: _Step, *, started: bool) -> tuple[int, ...]:
        """What may come next, in order; before the first row nothing is accepted: a match has one."""
        self._found, self._seen, self._started = [], set(), started
        step(False, frozenset())
        return tuple(self._found)

    def accept(self, after_end: bool, empty: frozenset[int]) -> None:
        if self._started:
            self._note(AT_END if after_end else ACCEPT)

    def _note(self, target: int) -> None:
        if target not in self._found and ACCEPT not in self._found:
            self._found.append(target)

    def compile(self, node: Node, then: _Step) -> _Step:
        """The step that begins `node` and goes on with `then`."""
        if isinstance(node, One | Not):
            return self._row(node, then)
        if isinstance(node, End):
            return lambda after_end, empty: then(True, empty)
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self.compile(part, then)
            return then
        if isinstance(node, Either):
            choices = [self.compile(choice, then) for choice in reversed(node.choices)]
            return self._in_turn(choices[::-1])
        return self._repeat(node, then)

    def _row(self, node: One | Not, then: _Step) -> _Step:
        number = len(self.positions)
        if number >= POSITIONS_MAX:
            raise PatternError(
                f"the pattern stands for more than {POSITIONS_MAX:,} single rows",
                hint="take smaller numbers in {n,m}, or + and * with a condition on count(…)",
            )
        self.positions.append(node)
        self.continuations.append(then)

        def step(after_end: bool, empty: frozenset[int]) -> None:
            if not after_end:
                self._note(number)

        return step

    def _repeat(self, node: Repeat, then: _Step) -> _Step:
        begin = then
        if node.most is None:
            begin = self._star(node, then)
        else:
            for _ in range(node.most - node.least):
                begin = self._one_more(node, begin, then)
        for _ in range(node.least):
            begin = self.compile(node.part, begin)
        return begin

    def _star(self, node: Repeat, then: _Step) -> _Step:
        def again(after_end: bool, empty: frozenset[int]) -> None:
            begin(after_end, empty)

        begin = self._one_more(node, again, then)
        return begin

    def _one_more(self, node: Repeat, again: _Step, then: _Step) -> _Step:
        """One more iteration, which goes on with `again` if it took a row; or on with `then`."""
        number = self._numbers = self._numbers + 1

        def done(after_end: bool, empty: frozenset[int]) -> None:
            if number not in empty:
                again(after_end, empty)

        inside = self.compile(node.part, done)

        def enter(after_end: bool, empty: frozenset[int]) -> None:
            inside(after_end, empty | {number})

        return self._in_turn([enter, then] if node.greedy else [then, enter])

    def _in_turn(self, steps: list[_Step]) -> _Step:
        number = self._numbers = self._numbers + 1

        def step(after_end: bool, empty: frozenset[int]) -> None:
            # Coming here again in the same way finds nothing that is not in the list already.
            if (visit := (number, after_end, empty)) not in self._seen:
                self._seen.add(visit)
                for each in steps:
                    each(after_end, empty)

        return step


def build(node: Node) -> Automaton:
    """The automaton of a pattern."""
    builder = _Builder()
    try:
        begin = builder.compile(node, builder.accept)
        first = builder.reached(begin, started=False)
        follow = tuple(builder.reached(step, started=True) for step in builder.continuations)
    except RecursionError:
        raise PatternError(
            "the pattern is nested too deeply; take smaller numbers in {n,m}"
        ) from None
    if not first:
        raise PatternError("the pattern takes no row; name a variable, as in 'A !B* $'")
    if not all(follow):
        raise PatternError("nothing can follow $: it means that no further row comes in time")
    return _in_reading_order(Automaton(tuple(builder.positions), first, follow))


def _in_reading_order(built: Automaton) -> Automaton:
    """Positions are made from the end; numbered from the beginning they read as the pattern does."""
    last = len(built.positions) - 1

    def renumbered(targets: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(last - each if each >= 0 else each for each in targets)

    return Automaton(
        built.positions[::-1],
        renumbered(built.first),
        tuple(renumbered(targets) for targets in reversed(built.follow)),
    )
