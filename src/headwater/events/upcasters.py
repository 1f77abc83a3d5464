"""Old events in today's shape: pure functions from one version of an event's data to the next.

    @upcaster("Deposited", 1)
    def with_currency(data: dict) -> dict:        # Deposited → Deposited.v2
        return {**data, "currency": "EUR"}

In the log the type of an event's first version is its class's name, of the second `NAME.v2`, and so on;
how many versions there are follows from the upcasters. The log is never rewritten. The application,
replays, `headwater events` and Spark (`headwater.events.frames`) all decode through `Upcasts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.events.errors import BadDefinition

Data = dict[str, object]
_TAG = re.compile(r"(?P<type>.+?)(?:\.v(?P<version>[1-9][0-9]*))?")


@dataclass(frozen=True)
class Upcaster:
    """From `version` of `type` to the next one, or to version 1 of another type where `to` says so."""

    type: str
    version: int
    change: Callable[[Data], Data]
    to: str | None = None

    def __call__(self, data: Data) -> Data:
        return self.change(data)


def upcaster(
    type: str, version: int, to: str | None = None
) -> Callable[[Callable[[Data], Data]], Upcaster]:
    """Declare a function as the step that follows `version` of `type`."""
    return lambda change: Upcaster(type, version, change, to)


def tag(type: str, version: int) -> str:
    """How a type of that version is named in the log."""
    return type if version == 1 else f"{type}.v{version}"


def untag(text: str) -> tuple[str, int]:
    found = _TAG.fullmatch(text)
    assert found is not None, "the pattern takes any text that is not empty"
    return found["type"], int(found["version"] or 1)


def versions(where: str, types: Sequence[str], upcasters: Sequence[Upcaster]) -> dict[str, int]:
    """The present version of each type; BadDefinition where the steps have a gap or lead nowhere."""
    steps: dict[str, list[Upcaster]] = {}
    for each in upcasters:
        steps.setdefault(each.type, []).append(each)
    for name, found in steps.items():
        numbers = sorted(each.version for each in found)
        if numbers != list(range(1, len(numbers) + 1)):
            raise BadDefinition(
                f"{where}: the upcasters of {name} are for versions {numbers}",
                hint="there must be one for each version from 1 on",
            )
        leaving = [each for each in found if each.to is not None]
        if any(each.version != numbers[-1] for each in leaving):
            raise BadDefinition(
                f"{where}: {name} becomes another type before its last version",
                hint="only the last upcaster of a type may have `to`",
            )
        target = leaving[0].to if leaving else name
        if target not in types and target not in steps:
            raise BadDefinition(
                f"{where}: {name} becomes {target}, which is no event here",
                hint="upcasters must end in one of the declared events",
            )
    return {name: len(steps.get(name, ())) + 1 for name in types}


class Upcasts:
    """All steps of an aggregate, ready for use. Pure, and cheap to send to a Spark worker."""

    def __init__(self, where: str, types: Sequence[str], upcasters: Sequence[Upcaster]) -> None:
        self.present: Mapping[str, int] = versions(where, types, upcasters)
        self._steps = {tag(each.type, each.version): each for each in upcasters}

    @property
    def old(self) -> frozenset[str]:
        """The tags that are not of today."""
        return frozenset(self._steps)

    def lift(self, tagged: str, data: Data) -> tuple[str, Data]:
        """An event of any version as one of today: its type's name, and its data."""
        while (step := self._steps.get(tagged)) is not None:
            data = step(data)
            tagged = tag(step.type, step.version + 1) if step.to is None else step.to
        return untag(tagged)[0], data
