"""What a program declares: commands, events, and the two functions between them.

    decide(state, command) -> events | Refused(reason)      may look at the state, may refuse
    apply(state, event) -> state                            must not refuse: an event is a fact

Both must be pure: the same arguments give the same result, no clock, no chance, no I/O. What a rule
needs to know of the world comes with the command. Commands and events are dataclasses, msgspec structs
or pydantic models. The name is the topic of the events; an aggregate's events lie in one partition.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Never, Protocol, TypeVar, cast

from headwater.events.answers import Answer, Refused
from headwater.events.errors import BadDefinition
from headwater.events.fingerprint import fingerprint
from headwater.events.upcasters import Upcaster, versions

State = TypeVar("State")
Decided = Refused | object | Sequence[object] | None
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True)
class Aggregate(Generic[State]):
    """One kind of aggregate: its rules, and the topic that holds what happened to all of them."""

    name: str
    initial: State
    decide: Callable[[State, Never], Decided]
    """Of a command, one of `commands`."""
    apply: Callable[[State, Never], State]
    """Of an event, one of `events`."""
    commands: Sequence[type]
    events: Sequence[type]
    upcasters: Sequence[Upcaster] = ()
    fold: int | None = None
    """Raise it when `apply` means something else than before, and its code does not show it (`fingerprint`):
    snapshots of another fold are not used."""
    state: type | None = None
    """The type of the state where `type(initial)` does not say enough (`dict[str, int]`)."""
    fingerprint: str = field(init=False, default="")
    """Of the fold; empty where it cannot be known; then there are no snapshots."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadDefinition(
                f"{self.name!r} cannot be a topic",
                hint="use letters, digits, dot, dash and underscore",
            )
        for kind, types in (("commands", self.commands), ("events", self.events)):
            names = [each.__name__ for each in types]
            twice = sorted({name for name in names if names.count(name) > 1})
            if not names or twice:
                what = f"two {kind} are named {twice[0]}" if twice else f"there are no {kind}"
                raise BadDefinition(f"{self.name}: {what}", hint="each needs a name of its own")
        versions(self.name, [each.__name__ for each in self.events], self.upcasters)
        object.__setattr__(self, "fingerprint", fingerprint(self))

    @property
    def answers(self) -> str:
        return f"{self.name}.answers"

    @property
    def snapshots(self) -> str:
        return f"{self.name}.snapshots"

    @property
    def inbox(self) -> str:
        """Commands from processes that do not own the partition."""
        return f"{self.name}.commands"

    @property
    def replies(self) -> str:
        return f"{self.name}.replies"

    @property
    def owners(self) -> str:
        """The group of the processes that own."""
        return f"{self.name}.owners"

    @property
    def letters(self) -> str:
        """Commands of the inbox that nobody understands."""
        return f"dlq.{self.owners}"

    def replay(self, events: Iterable[object], state: State | None = None) -> State:
        """The state after these events."""
        now = self.initial if state is None else state
        apply = cast(Callable[[State, object], State], self.apply)
        for event in events:
            now = apply(now, event)
        return now


class AnyAggregate(Protocol):
    """An aggregate, whatever its state is."""

    @property
    def name(self) -> str: ...
    @property
    def events(self) -> Sequence[type]: ...
    @property
    def upcasters(self) -> Sequence[Upcaster]: ...


class AnyApplication(Protocol):
    """An application, whatever the state of its aggregates is."""

    @property
    def aggregate(self) -> AnyAggregate: ...
    @property
    def send(self) -> Callable[..., Awaitable[Answer]]: ...


def as_events(decided: Decided) -> tuple[object, ...]:
    """What `decide` returned, without a refusal, as events in order."""
    if decided is None:
        return ()
    if isinstance(decided, list | tuple) and not hasattr(decided, "_fields"):
        return tuple(decided)
    return (decided,)
