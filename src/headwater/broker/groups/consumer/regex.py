"""Regular expressions over topic names, in time that no expression can blow up (RE2's promise).

`heartbeat` compiles what a member sends, `subscriptions` matches it against all topic names; a name
must match as a whole. An expression becomes a small machine (Thompson's construction) that is run
over all its states at once and remembers the sets of states it has seen, so a name costs one step
for each letter. There is no backtracking, hence no back reference and no look-around, as in RE2.

Every bound is stated: the expression's length, the machine's size, and the work of one look at all
topics; whoever exceeds one gets `BadRegex`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from headwater.broker.groups.consumer.regex_syntax import BadRegex, Letters, Node, parse

__all__ = ["BadRegex", "Regex", "compiled"]

STATES_MAX = 2_000
WORK_MAX = 400_000
"""Machine states looked at for one expression, over all topic names: some 100 ms of the event loop."""
_LETTERS_PER_STATE = 4
"""So many letters for which the step is known are as much work as to look at one state."""
_MATCH = -1


class Regex:
    """A machine: each state takes a letter, or nothing, or wants to stand at an end of the name."""

    def __init__(self, expression: str) -> None:
        self._letters: list[Letters | str | None] = []
        self._next: list[tuple[int, ...]] = []
        start = self._build(parse(expression), _MATCH)
        self._work = WORK_MAX
        self._start = self._closure((start,), "start")
        self._seen: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._ends: dict[frozenset[int], bool] = {}

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those that match. Raises BadRegex if that is too much work."""
        self._work = WORK_MAX
        return [name for name in names if self.matches(name)]

    def matches(self, name: str) -> bool:
        states = self._start
        self._spend(len(name) // _LETTERS_PER_STATE)
        for letter in name:
            if not states:
                return False
            reached = self._seen.get((states, letter))
            if reached is None:
                reached = self._step(states, letter)
            states = reached
        if not name:  # it begins where it ends
            return _MATCH in self._closure(states, "start", "end")
        ends = self._ends.get(states)
        if ends is None:
            ends = self._ends[states] = _MATCH in self._closure(states, "end")
        return ends

    def _step(self, states: frozenset[int], letter: str) -> frozenset[int]:
        reached = []
        for state in states:
            letters = self._letters[state] if state != _MATCH else None
            if isinstance(letters, frozenset) and letter in letters:
                reached.append(self._next[state][0])
        self._spend(len(states))
        if len(self._seen) > STATES_MAX:
            self._seen.clear()
            self._ends.clear()
        found = self._seen[states, letter] = self._closure(reached)
        return found

    def _closure(self, states: Iterable[int], *where: str) -> frozenset[int]:
        """Those states, and all that can be reached without a letter; `where` we are."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state not in found:
                found.add(state)
                if state != _MATCH and self._letters[state] in (None, *where):
                    waiting.extend(self._next[state])
        self._spend(len(found))
        return frozenset(s for s in found if s == _MATCH or self._letters[s] is not None)

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise BadRegex("it takes too much work to match")

    # ---- construction: a node, and the state that follows it --------------------------------------

    def _build(self, node: Node, then: int) -> int:
        kind = node[0]
        if kind in ("letters", "anchor"):
            return self._state(node[1], (then,))
        if kind == "sequence":
            for part in reversed(node[1]):
                then = self._build(part, then)
            return then
        if kind == "either":
            return self._state(None, tuple(self._build(part, then) for part in node[1]))
        assert kind == "repeat"
        return self._repeat(node[1], node[2], node[3], then)

    def _repeat(self, part: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            loop = self._state(None, ())
            self._next[loop] = (self._build(part, loop), then)
            then = loop
        else:
            for _ in range(high - low):
                then = self._state(None, (self._build(part, then), then))
        for _ in range(low):
            then = self._build(part, then)
        return then

    def _state(self, letters: Letters | str | None, following: tuple[int, ...]) -> int:
        if len(self._letters) >= STATES_MAX:
            raise BadRegex("it is too large")
        self._letters.append(letters)
        self._next.append(following)
        return len(self._letters) - 1


@lru_cache(256)
def compiled(expression: str) -> Regex:
    """Raises BadRegex."""
    return Regex(expression)
