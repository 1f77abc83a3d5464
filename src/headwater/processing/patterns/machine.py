"""The automaton at work: the rows of one key, one after the other, and what is open between them.

Every row that can begin a match begins an *attempt*. An attempt is a list of *ways*, the preferred one
first: each is the position that the next row must fit, and what was remembered on the way. A row takes
each way a step further or ends it. When a way reaches the end of the pattern, those behind it in the list
are dropped, and it is the attempt's match unless one before it gets there as well. An attempt is settled
when no way is left or its time is over; matches are told in the order of their first rows, and each then
rules out the attempts that its skip mode says.

The state of a key is plain data, for the checkpoint:

    (next_row, next_start, last_us, attempts)      attempt: [row, start_us, ways, best]
    way: (position, slots)                         best:    (slots, row, end_us, timed_out) or None

Also here: whether a row fits a position, beyond its bits: conditions over earlier rows, and what is
remembered.

While the condition of B is asked, the row counts as bound to B: `count(B)` includes it, `last(B.price, 1)`
is the B before it. A condition that is null does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headwater.processing.patterns.automaton import ACCEPT, AT_END
from headwater.processing.patterns.errors import TooManyWays
from headwater.processing.patterns.evaluator import Evaluate, Evaluator
from headwater.processing.patterns.memory import Bind, Slots, Values, binder, empty, reader
from headwater.processing.patterns.plan import PAST_LAST_ROW, TO_NEXT_ROW, Plan
from headwater.processing.patterns.syntax import Not, One
from headwater.processing.patterns.trees import RowsReference

WAYS_MAX = 10_000
"""Of one attempt. Only conditions over earlier rows make so many: others share their position."""

State = tuple[int, int, int, list[Any]]
Result = tuple[Any, ...]
"""(start_us, end_us, timed_out, measures …)"""

FRESH: State = (0, 0, 0, [])


class Machine:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._within = plan.within_us
        self._follow = plan.automaton.follow
        bits = {name: 1 << number for number, name in enumerate(plan.variables)}
        tested = {name for name, tests in zip(plan.variables, plan.tests, strict=True) if tests}
        positions = plan.automaton.positions
        self._need = [bits[each.variable] if isinstance(each, One) else 0 for each in positions]
        self._forbid = [
            sum(bits[name] for name in each.variables if name not in tested)
            if isinstance(each, Not)
            else 0
            for each in positions
        ]
        evaluator = Evaluator(plan.columns, plan.slots, plan.ansi)
        self._tests = {
            name: [evaluator.function(tree, f"define {name!r}") for tree in tests]
            for name, tests in zip(plan.variables, plan.tests, strict=True)
        }
        self._bits = bits
        self._checks = [self._check(each) for each in positions]
        nothing = empty(plan.slots)
        self._first = [(position, nothing) for position in plan.automaton.first]
        self._measures = [
            evaluator.function(tree, f"measures {name!r}") for name, tree in plan.measures
        ]
        self._target = self._skip_target()

    @property
    def starts(self) -> list[tuple[int, int]]:
        """(bits a row must have, bits it must not have) to begin an attempt: one of these."""
        return [(self._need[p], self._forbid[p]) for p in self._plan.automaton.first]

    def rows(
        self,
        state: State,
        times: Sequence[int],
        masks: Sequence[int],
        values: Sequence[Values] | None,
        startable: Sequence[bool],
        span: Iterable[int],
        out: list[Result],
    ) -> State:
        """Take rows, in order, by their numbers in the sequences; `startable`: has the bits to begin."""
        row, next_start, last_us, attempts = state
        attempts = [attempt[:] for attempt in attempts]
        for each in span:
            now, mask = times[each], masks[each]
            value: Values = () if values is None else values[each]
            if attempts and attempts[0][1] + self._within < now:
                self._run_out(attempts, now - 1, row - 1, last_us)
                next_start = self._tell(attempts, next_start, out)
            settled = False
            for attempt in attempts:
                if attempt[2]:
                    attempt[2] = self._step(attempt, mask, value, row, now)
                    settled = settled or not attempt[2]
            if startable[each] and row >= next_start:
                attempt = [row, now, self._first, None]
                attempt[2] = self._step(attempt, mask, value, row, now)
                if attempt[2] or attempt[3] is not None:
                    attempts.append(attempt)
                    settled = settled or not attempt[2]
            if settled:
                next_start = self._tell(attempts, next_start, out)
            row += 1
            last_us = now
        return row, next_start, last_us, attempts

    def close(self, state: State, closed_us: int, out: list[Result]) -> State:
        """No further row comes at or before `closed_us`."""
        row, next_start, last_us, attempts = state
        attempts = [attempt[:] for attempt in attempts]
        self._run_out(attempts, closed_us, row - 1, last_us)
        next_start = self._tell(attempts, next_start, out)
        return row, next_start, last_us, attempts

    def deadline_us(self, state: State) -> int:
        """When the first open attempt's time is over."""
        start: int = state[3][0][1]
        return start + self._within

    def _step(self, attempt: list[Any], mask: int, values: Values, row: int, now: int) -> list[Any]:
        new: list[Any] = []
        seen: set[Any] = set()
        need, forbid, checks, follow = self._need, self._forbid, self._checks, self._follow
        decisive = self._plan.decisive
        for position, slots in attempt[2]:
            if position < 0 or mask & need[position] != need[position] or mask & forbid[position]:
                continue
            check = checks[position]
            if check is not None and (slots := check(slots, values, row, mask)) is None:
                continue
            for target in follow[position]:
                if target == ACCEPT:
                    attempt[3] = (slots, row, now, False)
                    return new
                # Two ways at one position that remember the same have the same future.
                same = (target, slots[:decisive]) if decisive else target
                if same not in seen:
                    seen.add(same)
                    new.append((target, slots))
        if len(new) > WAYS_MAX:
            raise TooManyWays(
                f"the rows from {attempt[1]} (µs) on fit the pattern in more than {WAYS_MAX:,} ways",
                hint="make the conditions exclude each other, or `within` shorter",
            )
        return new

    def _run_out(self, attempts: list[Any], closed_us: int, row: int, last_us: int) -> None:
        """Settle those whose time is over; `row` is the last one that they could take."""
        for attempt in attempts:
            if attempt[1] + self._within > closed_us:
                return
            ways = attempt[2]
            if not ways:
                continue
            ended = next((slots for position, slots in ways if position == AT_END), None)
            if ended is not None:
                attempt[3] = (ended, row, last_us, False)
            elif attempt[3] is None and self._plan.timeouts:
                attempt[3] = (ways[0][1], row, last_us, True)
            attempt[2] = []

    def _tell(self, attempts: list[Any], next_start: int, out: list[Result]) -> int:
        """Tell what is settled, up to the first attempt that is not; returns the next allowed start."""
        while attempts and not attempts[0][2]:
            row, start_us, _, best = attempts.pop(0)
            if best is None:
                continue
            slots, last_row, end_us, timed_out = best
            measures = [each((), slots) for each in self._measures]
            out.append((start_us, end_us, timed_out, *measures))
            if not timed_out:
                next_start = self._target(row, last_row, slots)
                while attempts and attempts[0][0] < next_start:
                    attempts.pop(0)
        # What failed behind an open attempt would only be carried along.
        if len(attempts) > 1:
            attempts[1:] = [each for each in attempts[1:] if each[2] or each[3] is not None]
        return next_start

    def _skip_target(self) -> Callable[[int, int, Slots], int]:
        skip = self._plan.skip
        if skip == PAST_LAST_ROW:
            return lambda row, last_row, slots: last_row + 1
        if skip == TO_NEXT_ROW:
            return lambda row, last_row, slots: row + 1
        assert isinstance(skip, RowsReference)
        number, read = self._plan.slots.index(skip), reader(skip, self._plan.ansi)

        def target(row: int, last_row: int, slots: Slots) -> int:
            found = read(slots[number])
            return row + 1 if found is None else max(row + 1, found)

        return target

    def _check(self, position: One | Not) -> Check | None:
        if isinstance(position, One):
            name = position.variable
            return check_one(self._bind(name), self._tests[name])
        tested = [name for name in position.variables if self._tests[name]]
        others = [
            (self._bits[name], check_one(self._bind(name), self._tests[name])) for name in tested
        ]
        return check_none(self._bind(None), others)

    def _bind(self, variable: str | None) -> Bind | None:
        return binder(self._plan.slots, variable, self._plan.columns, self._plan.ansi)


Check = Callable[[Slots, Values, int, int], Slots | None]
"""(slots, values, number and bits of the row) → the slots with the row in them, or None: does not fit."""


def check_one(bind: Bind | None, tests: Sequence[Evaluate]) -> Check | None:
    """For a row that is bound to a variable; None where every row with its bits fits."""
    if not tests:
        return _binding(bind)

    def check(slots: Slots, values: Values, row: int, mask: int) -> Slots | None:
        new = slots if bind is None else bind(slots, values, row)
        for test in tests:
            if not test(values, new):
                return None
        return new

    return check


def check_none(bind: Bind | None, others: Sequence[tuple[int, Check | None]]) -> Check | None:
    """For a row that fits none of some variables: (bit, check) of those that look at other rows."""
    if not others:
        return _binding(bind)

    def check(slots: Slots, values: Values, row: int, mask: int) -> Slots | None:
        for bit, other in others:
            if mask & bit and (other is None or other(slots, values, row, mask) is not None):
                return None
        return slots if bind is None else bind(slots, values, row)

    return check


def _binding(bind: Bind | None) -> Check | None:
    if bind is None:
        return None
    return lambda slots, values, row, mask: bind(slots, values, row)
