"""How much work it is to check a value by a JSON Schema: counted before it is done; pure.

`$ref` and `allOf` make a schema of a few hundred bytes take for ever (each of two that are each of two …),
and the library that checks neither counts nor lets others run. So nothing is checked that takes more than
`STEPS_MAX`: `document` refuses such schemas when they are registered, and whoever checks values
(`values.json`, the edges) asks `Steps.check` before.

    parts     the schemas of a document, each with what it applies to its own value and to those inside
    state     which parts meet one place of a value, and how often: a place inside leads to the next state
    steps     of a value: the sum over its places; an expression counts by its size × the text's length

Invariants: steps are never fewer than what the library does; counting is linear in the value.
"""

from __future__ import annotations

import graphlib
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema.parts import LETTERS_OF_A_STEP, Patterns, State, parts_of
from headwater.schemas.json_schema.shapes import Node

STEPS_MAX = 5_000_000
"""Of one value: about a second."""
PARTS_MAX = 10_000
"""Schemas that meet one place of a value, each as often as it does."""
LEVELS_MAX = 5_000
"""Schemas inside of each other, all along the way into a value: the library's stack has an end."""
BACKTRACKS_MAX = 10_000
"""Of one expression that has to go back (look-around), at one text."""
EXPRESSIONS_MAX = 2_000_000
"""Instructions of all expressions of a schema: whoever checks values holds them, at some 80 bytes each."""
_EVALUATED_TIMES = 3
"""What applies others that ask what was not evaluated, and asks it itself, applies them again: 2.6 times."""
_PASSED_SHARE = 8
"""Members that a part passes over, in a step."""
_STATES_MAX, _LINKS_MAX = 2_000, 300
_EXPLORED_MAX, _MET_MAX = 300_000, 1_000_000
"""Parts that are met by what is looked at before there is a value, and by one value."""


class TooManySteps(ValueError):
    """The value, or any value by this schema, takes too long to check."""


def check(root: Node) -> None:
    """For a schema that is to be registered. Raises InvalidSchema."""
    try:
        Steps(root).check_growth()
    except TooManySteps as error:
        raise InvalidSchema(f"Invalid schema: {error}") from None


class Ceiling(NamedTuple):
    """The most steps for each letter of a value's text."""

    weight: int
    patterns: Patterns
    levels: float
    """However deep the value is."""
    links: int
    """For each level of a value."""
    unique: int

    def is_deep(self, letters: int) -> bool:
        return min(self.levels, letters * self.links / 2) > LEVELS_MAX

    def of(self, letters: int) -> float:
        unique = self.unique and self.unique * self.levels
        weight = self.weight * (1 + 1 / _PASSED_SHARE) + unique
        return letters * weight + self.patterns.steps(letters, times=letters)


class Steps:
    """Of one schema. For several threads."""

    def __init__(self, root: Node) -> None:
        """Raises TooManySteps where no value can be checked."""
        self._parts, first = parts_of(root)
        if sum(each.own.size + each.names.size for each in self._parts) > EXPRESSIONS_MAX:
            raise TooManySteps("its regular expressions are too large, all together")
        self._closures: dict[int, Counter[int]] = {}
        self._links: dict[int, int] = {}
        """How many schemas lead through each other to the last one that it applies to its own place."""
        self._first: Sequence[int] = () if first is None else (first,)
        self._made = 0
        self._left: float = _MET_MAX
        """Parts that may be met by what is looked at now: the schema as a whole, or one value."""
        self._root = self._state(Counter(self._first))
        self._left = _EXPLORED_MAX
        self._ceiling = self._explored()

    def check(self, value: object, letters: int | None = None) -> int:
        """At least as many steps as it takes. `letters`: of its text, by which most need not be counted.
        Raises TooManySteps."""
        if letters is not None and self._ceiling is not None:
            most = self._ceiling.of(letters + 1)
            if most <= STEPS_MAX and not self._ceiling.is_deep(letters + 1):
                return int(most)
        self._left = _MET_MAX
        if self._made > _STATES_MAX:
            self._made, self._root = 0, self._state(Counter(self._first))
        return self._counted(value)

    def _counted(self, value: object) -> int:
        total = 0.0
        open_places: list[tuple[State, object, int, int]] = [(self._root, value, 0, 0)]
        while open_places:
            state, place, above, unique = open_places.pop()
            levels = above + state.links
            if levels > LEVELS_MAX:
                raise TooManySteps(f"it is nested in more than {LEVELS_MAX:,} levels of its schema")
            total += state.weight + unique
            if isinstance(place, str):
                total += (state.weight + unique) * (len(place) // LETTERS_OF_A_STEP)
                total += state.own.steps(len(place))
            elif isinstance(place, dict):
                total += state.count * len(place) / _PASSED_SHARE
                for key, each in place.items():
                    total += state.names.steps(len(key))
                    open_places.append((self._inside(state, key), each, levels, unique))
            elif isinstance(place, list | tuple):
                total += state.count * len(place) / _PASSED_SHARE
                unique += state.unique
                for index, each in enumerate(place):
                    open_places.append((self._inside(state, index), each, levels, unique))
            if total > STEPS_MAX:
                raise _too_long()
        return int(total)

    def check_growth(self) -> None:
        """Whether a place may be met by too many, but for schemas inside of themselves, as those grow only
        with the value. Raises TooManySteps."""
        self._left = math.inf  # who registers has a process of its own
        waiting = deque([(self._root, frozenset(self._root.met))])
        seen: set[frozenset[tuple[int, int]]] = set()
        for _ in range(_STATES_MAX):
            if not waiting:
                return
            state, above = waiting.popleft()
            for word in (*state.words, None, -1):
                met = state.met_inside(word)
                found = {each: times for each, times in met.items() if each not in above}
                known = frozenset(found.items())
                if not found or known in seen or len(seen) > _STATES_MAX:
                    continue
                seen.add(known)
                following = self._state(found)
                if sum(following.met.values()) > PARTS_MAX:
                    raise _too_many()
                waiting.append((following, above | frozenset(following.met)))

    def _explored(self) -> Ceiling | None:
        """None: it grows with the value."""
        seen: dict[frozenset[tuple[int, int]], State] = {}
        waiting, weight, patterns = [self._root], 0, Patterns()
        while waiting:
            state = waiting.pop()
            if state.known in seen:
                continue
            seen[state.known] = state
            weight, patterns = max(weight, state.weight), patterns.or_more(state.own, state.names)
            if len(seen) + len(waiting) + len(state.words) > _STATES_MAX:
                return None
            try:
                waiting += [self._inside(state, each) for each in (*state.words, None, -1)]
            except TooManySteps:
                return None
        links = max(each.links for each in seen.values())
        unique = max(each.unique for each in seen.values())
        return Ceiling(weight, patterns, _levels(seen.values()), links, unique)

    def _inside(self, state: State, key: object) -> State:
        is_member = key is None or isinstance(key, str)
        word = key if key in state.words else (None if is_member else -1)
        found = state.next.get(word)
        if found is None:
            found = state.next[word] = self._state(state.met_inside(word))
        return found

    def _state(self, met: Mapping[int, int]) -> State:
        """With all that these apply to the same place. Raises TooManySteps."""
        found: Counter[int] = Counter()
        for number, times in met.items():
            for each, often in self._closure(number).items():
                found[each] += times * often
        self._left -= len(found)
        if self._left < 0 or sum(found.values()) > STEPS_MAX:
            raise _too_long()
        self._made += 1
        links = max((self._links[each] for each in found), default=0)
        return State(dict(found), self._parts, links)

    def _closure(self, number: int) -> Counter[int]:
        """What it applies to its own place, itself included, each as often as it does."""
        path: dict[int, Iterator[int]] = {}
        if number not in self._closures:
            path[number] = iter(self._parts[number].here)
        while path:
            top, rest = next(reversed(path.items()))
            following = next((each for each in rest if each not in self._closures), None)
            if following is None:
                del path[top]
                self._close(top)
            elif following in path or len(path) > _LINKS_MAX:
                raise TooManySteps(
                    "a schema applies itself to the value that it is applied to, again and again, or "
                    f"through more than {_LINKS_MAX} others"
                )
            else:
                path[following] = iter(self._parts[following].here)
        return self._closures[number]

    def _close(self, number: int) -> None:
        own, part = Counter([number]), self._parts[number]
        self._left -= sum(len(self._closures[each]) for each in part.here)
        found = own.copy()
        for each in part.here:
            found.update(self._closures[each])
        if part.is_evaluating and any(self._parts[each].is_evaluating for each in found - own):
            found = Counter({each: often * _EVALUATED_TIMES for each, often in found.items()})
        if sum(found.values()) > PARTS_MAX:
            raise _too_many()
        self._closures[number] = found
        self._links[number] = 1 + max((self._links[each] for each in part.here), default=0)


def _levels(states: Iterable[State]) -> float:
    """The most along any way into a value; infinite where a way comes back."""
    there = {state.known: state for state in states if state.met}
    ways = {
        known: {each.known for each in state.next.values() if each.met}
        for known, state in there.items()
    }
    found: dict[frozenset[tuple[int, int]], int] = {}
    try:
        for known in graphlib.TopologicalSorter(ways).static_order():
            inside = max((found[each] for each in ways[known]), default=0)
            found[known] = there[known].links + inside
    except graphlib.CycleError:
        return math.inf
    return max(found.values(), default=0)


def _too_many() -> TooManySteps:
    return TooManySteps(
        f"more than {PARTS_MAX:,} of its parts meet one place of a value, each as often as $ref and allOf "
        "lead to it: refer to each schema once"
    )


def _too_long() -> TooManySteps:
    return TooManySteps(
        f"to check it takes more than {STEPS_MAX:,} steps by its schema: make it smaller, or the schema "
        "simpler where alternatives meet the same place"
    )
