"""Which topics an expression of a member means: remembered, so that only new names are looked at.

`heartbeat` compiles what a member sends, `subscriptions` matches it against all topic names. Both run in the
event loop and have a `Budget` there; what is beyond it was looked at in a thread before (`look`), or waits
for the next heartbeat. What an expression may cost is bounded in `headwater.regex`.

A group keeps what was found for the expressions of its members, however many they are; of the machines, which
may have a megabyte each, only those used last are kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import lru_cache
from weakref import WeakValueDictionary

from headwater.regex import STEPS_AT_ONCE_MAX, BadRegex, Regex

__all__ = ["BadRegex", "Budget", "TopicRegex", "compiled", "look", "names_of"]

MACHINES_MAX = 64
COMPILING_STEPS = 20_000
"""What it costs at most to make a machine again, as steps."""

Names = frozenset[str]
Job = Callable[[], "TopicRegex"]
Aside = Callable[[Callable[[], Job | None]], Awaitable["TopicRegex | None"]]
"""Waits for a turn, asks what is to be done then, and does it in a thread."""


class TopicRegex:
    """An expression, and the topics that it was last asked about."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._names: Names = frozenset()
        """All that were looked at by the last `among`."""
        self._found: Names = frozenset()
        self._refused: Names = frozenset()
        """All those names would have been too much work."""

    def among(self, names: Collection[str]) -> Names:
        """Those that match; only what is new since the last call is looked at. Raises BadRegex."""
        now = frozenset(names)
        if self._is_known(now):
            return self._found
        if self._is_refused(now):
            raise BadRegex("it takes too much work to match")
        try:
            found = frozenset(_machine(self._expression).matching(now - self._names))
        except BadRegex:
            self._refused = now
            raise
        self._names, self._found, self._refused = now, self._found & now | found, frozenset()
        return self._found

    def has_seen(self, names: Names) -> bool:
        """Whether `among` answers without any work."""
        return self._is_known(names) or self._is_refused(names)

    def steps(self, names: Collection[str]) -> int:
        """How much work `among` may be. Raises BadRegex."""
        now = frozenset(names)
        return 0 if self.has_seen(now) else _machine(self._expression).steps(now - self._names)

    def check(self) -> None:
        """Raises BadRegex if it is no expression."""
        _machine(self._expression)

    def look(self, names: Names) -> Job | None:
        """What a thread is to do so that these are known; None: they are. Others may ask meanwhile."""
        if self.has_seen(names):
            return None
        copy = TopicRegex(self._expression)
        copy.learn(self)

        def job() -> TopicRegex:
            try:
                copy.among(names)
            except BadRegex:
                pass  # whoever asks for it meets the same
            return copy

        return job

    def learn(self, other: TopicRegex) -> None:
        """Take over what another one of the same expression has found."""
        self._names, self._found, self._refused = other._names, other._found, other._refused

    def _is_known(self, names: Names) -> bool:
        return names is self._names or names == self._names

    def _is_refused(self, names: Names) -> bool:
        return bool(self._refused) and (self._refused is names or self._refused <= names)


class Budget:
    """What one turn of the event loop may spend on expressions, all together."""

    def __init__(self) -> None:
        self._left = STEPS_AT_ONCE_MAX

    def allows(self, regex: TopicRegex, names: Names) -> bool:
        """Whether there is time to ask `among` now; it is spent then."""
        if regex.has_seen(names):
            return True
        cost = COMPILING_STEPS + len(names)
        if cost > self._left:
            return False
        try:
            cost += regex.steps(names)
        except BadRegex:
            pass  # `among` says so, too, and at once
        if cost > self._left:
            return False
        self._left -= cost
        return True


async def look(
    aside: Aside, expressions: Iterable[str], topics: Collection[str]
) -> list[TopicRegex]:
    """Look at these names, in a thread if it is much: `among` answers at once then.

    What was found is known for as long as the caller keeps the list.
    """
    looked = [compiled(expression) for expression in expressions]
    budget, names = Budget(), names_of(topics)
    if all(budget.allows(each, names) for each in looked):
        return looked
    for each in looked:
        found = await aside(lambda each=each: each.look(names_of(topics)))  # type: ignore[misc]
        if found is not None:
            each.learn(found)
    return looked


_known: WeakValueDictionary[str, TopicRegex] = WeakValueDictionary()
"""Those that a group keeps, or that were asked for lately."""
_latest: Names = frozenset()


def names_of(topics: Collection[str]) -> Names:
    """The names as a set: the same one while they stay the same, so that to compare it costs nothing."""
    global _latest
    names = frozenset(topics)
    if names != _latest:
        _latest = names
    return _latest


@lru_cache(64)
def compiled(expression: str) -> TopicRegex:
    """What is known of this expression."""
    return _known.setdefault(expression, TopicRegex(expression))


def _machine(expression: str) -> Regex:
    """Raises BadRegex."""
    made = _made(expression)
    if isinstance(made, str):
        raise BadRegex(made)
    return made


@lru_cache(MACHINES_MAX)
def _made(expression: str) -> Regex | str:
    """The machine, or why there is none: to find that out takes as long."""
    try:
        return Regex(expression)
    except BadRegex as error:
        return str(error)
