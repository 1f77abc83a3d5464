"""`when = …` of an alert, understood; pure.

| words                       | on           | fires                                                        |
|-----------------------------|--------------|--------------------------------------------------------------|
| `lag > 1000`, `lag > 30s`   | view, group  | so many records, or (a view) so long behind the log          |
| `silence > 5m`              | topic, view  | no new record, or the view did not move, for so long         |
| `matches`                   | topic        | for each record that `where` and `grep` let through          |
| `total > 100`               | topic        | per key: the field's last value is beyond                    |
| `count > 100 in 1m`         | topic        | of the records that `where` and `grep` let through           |
| `avg(total) < 5 in 10m`     | topic        | likewise, with sum, min, max                                 |

Comparisons: > >= < <=. Durations: 500ms 30s 5m 2h 1d.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from headwater.client.errors import BadRequest

_SIGN = r"(>=|<=|>|<)"
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_DURATION = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_PATH = r"[A-Za-z_][\w.-]*"
_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_WORDS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}


@dataclass(frozen=True)
class Beyond:
    """A threshold."""

    sign: str
    limit: float

    def is_met(self, value: float) -> bool:
        return _COMPARE[self.sign](value, self.limit)

    def __str__(self) -> str:
        return f"{_WORDS[self.sign]} {self.limit:,g}"


@dataclass(frozen=True)
class Lag:
    beyond: Beyond
    in_seconds: bool = False


@dataclass(frozen=True)
class Silence:
    limit_s: float


@dataclass(frozen=True)
class Matches:
    pass


@dataclass(frozen=True)
class Field:
    path: str
    beyond: Beyond


@dataclass(frozen=True)
class Aggregate:
    """`fold`: count, sum, avg, min, max; of the field at `path`, over the last `window_s`."""

    fold: str
    path: str
    beyond: Beyond
    window_s: float

    def __str__(self) -> str:
        return self.fold if self.fold == "count" else f"{self.fold}({self.path})"


Rule = Lag | Silence | Matches | Field | Aggregate
ON: dict[type[Rule], tuple[str, ...]] = {
    Lag: ("view", "group"),
    Silence: ("topic", "view"),
    Matches: ("topic",),
    Field: ("topic",),
    Aggregate: ("topic",),
}
"""What a rule may be about."""


def parse(text: str) -> Rule:
    """Raises Misunderstood."""
    words = " ".join(text.split())
    if words == "matches":
        return Matches()
    if found := re.fullmatch(rf"silence (?:>|for) ?{_DURATION}", words):
        return Silence(_seconds(found[1], found[2]))
    if found := re.fullmatch(rf"lag ?{_SIGN} ?{_DURATION}", words):
        return Lag(Beyond(found[1], _seconds(found[2], found[3])), in_seconds=True)
    if found := re.fullmatch(rf"lag ?{_SIGN} ?{_NUMBER}", words):
        return Lag(Beyond(found[1], float(found[2])))
    if found := re.fullmatch(
        rf"(?:(count)|(sum|avg|min|max)\(({_PATH})\)) ?{_SIGN} ?{_NUMBER} in {_DURATION}", words
    ):
        count, fold, path, sign, number, much, unit = found.groups()
        beyond = Beyond(sign, float(number))
        return Aggregate(count or fold, path or "", beyond, _seconds(much, unit))
    if found := re.fullmatch(rf"({_PATH}) ?{_SIGN} ?{_NUMBER}", words):
        if found[1] not in ("count", "silence"):
            return Field(found[1], Beyond(found[2], float(found[3])))
    raise BadRequest(
        f"{text!r} is no rule",
        hint='write "lag > 1000", "silence > 5m", "matches", "total > 100", "count > 100 in 1m" '
        'or "avg(total) > 5 in 10m"',
    )


def _seconds(much: str, unit: str) -> float:
    return float(much) * _UNIT_S[unit]
