"""What a setting is: name, type, default, what it accepts, when it may change, one line of words.

The tables in `node`, `logs`, `coordinators` (the broker's settings) and `topic` (a topic's) are
written in these words; `values` and the config APIs read them. Text becomes a value, and a value
text, only here, by the rules of Kafka's ConfigDef and in its sentences, because clients show them.

| type     | text                                                         | value         |
|----------|--------------------------------------------------------------|---------------|
| BOOLEAN  | true or false, in any case                                   | bool          |
| SHORT    | decimal, 16 bits, sign allowed                               | int           |
| INT      | the same, 32 bits                                            | int           |
| LONG     | the same, 64 bits                                            | int           |
| DOUBLE   | decimal, with or without exponent                            | float         |
| STRING   | any; blanks at both ends do not count                        | str           |
| LIST     | items with commas between, none of them empty                | list of str   |
| PASSWORD | as STRING; must never be shown to a client                   | str           |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from headwater.secrets import HIDDEN


class Kind(IntEnum):
    """The type of a setting; the numbers are DescribeConfigs' `config_type`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_SECRET = re.compile(r"(://)\S*(@)|\?\S+")
_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


class Check(NamedTuple):
    """`problem` says what is wrong with a value, or None; `accepts` says the rule in the docs."""

    problem: Callable[[Any], str | None]
    accepts: str
    culprit: Callable[[Any], str] | None = None
    """What of a refused value the sentence shows, where it is not simply the text."""


class Definition(NamedTuple):
    """One setting. `default` is a value of `kind`, or None where nothing is the default."""

    name: str
    kind: Kind
    default: Any
    doc: str
    check: Check | None = None
    update: str = READ_ONLY
    """`READ_ONLY`: from the start on; `PER_BROKER`, `CLUSTER_WIDE`: through the config APIs too."""
    effect: bool = True
    """False: taken so that Kafka's own files and tools work, and without meaning on one node."""
    synonyms: tuple[tuple[str, int], ...] = ()
    """Of a topic config: the broker settings behind it, first one that is set wins, and the factor
    from their unit to this one's."""

    @property
    def dynamic(self) -> bool:
        return self.update != READ_ONLY

    @property
    def sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD


class BadValue(ValueError):
    """A text that is no value of its setting; the message is Kafka's sentence."""


def parse(definition: Definition, text: str) -> Any:
    """The value that `text` means for this setting, or `BadValue`."""
    text = text.strip()
    value = _PARSERS[definition.kind](definition, text)
    problem = definition.check.problem(value) if definition.check else None
    if problem is not None:
        assert definition.check is not None
        culprit = definition.check.culprit
        raise bad_value(definition, culprit(value) if culprit else text, problem)
    return value


def bad_value(definition: Definition, text: str, problem: str) -> BadValue:
    shown = "[hidden]" if definition.sensitive else public(text)
    return BadValue(f"Invalid value {shown} for configuration {definition.name}: {problem}")


def public(text: str | None) -> str | None:
    """As anybody may see it: a login or a query in an address may be a secret."""
    if text is None or "://" not in text:
        return text
    return _SECRET.sub(lambda found: (found[1] or "?") + HIDDEN + (found[2] or ""), text)


def render(value: Any) -> str | None:
    """A value as the text that the config APIs show; None stays None (not set)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(value)
    text = str(value)
    if isinstance(value, float) and "e" in text:  # as Java writes it: 1.0E308
        digits, _, exponent = text.partition("e")
        return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
    return text


def _boolean(definition: Definition, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise bad_value(definition, text, "Expected value to be either true or false")
    return lowered == "true"


def _whole_number(definition: Definition, text: str) -> int:
    bound = 2 ** (_BITS[definition.kind] - 1)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and len(digits) < 400 and -bound <= int(text) < bound:
        return int(text)
    raise bad_value(definition, text, f"Not a number of type {definition.kind.name}")


def _double(definition: Definition, text: str) -> float:
    try:
        if "_" not in text:  # Python's own freedom, which Java does not know
            return float(text)
    except ValueError:
        pass
    raise bad_value(definition, text, "Not a number of type DOUBLE")


def _string(definition: Definition, text: str) -> str:
    return text


def _list(definition: Definition, text: str) -> list[str]:
    items = list(dict.fromkeys(item.strip() for item in text.split(","))) if text else []
    if "" in items:
        raise BadValue(f"Configuration '{definition.name}' values must not be empty.")
    return items


_PARSERS: dict[Kind, Callable[[Definition, str], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.STRING: _string,
    Kind.INT: _whole_number,
    Kind.SHORT: _whole_number,
    Kind.LONG: _whole_number,
    Kind.DOUBLE: _double,
    Kind.LIST: _list,
    Kind.PASSWORD: _string,
}


# ---- checks ------------------------------------------------------------------------------------


def at_least(low: float) -> Check:
    says = f"Value must be at least {low}"
    return Check(lambda value: None if value >= low else says, f"{low} or more")


def between(low: float, high: float) -> Check:
    def problem(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        # "not <=" and not ">": NaN must not pass
        return None if value <= high else f"Value must be no more than {high}"

    return Check(problem, f"{low} to {high}")


def between_or(low: int, high: int, other: int) -> Check:
    says = f"Value must be between {low} and {high} or equal to {other}"
    return Check(
        lambda value: None if value == other or low <= value <= high else says,
        f"{low} to {high}, or {other}",
    )


def one_of(*choices: str) -> Check:
    says = f"String must be one of: {', '.join(choices)}"
    return Check(lambda value: None if value in choices else says, f"one of {', '.join(choices)}")


def items_of(*choices: str) -> Check:
    says = f"String must be one of: {', '.join(choices)}"
    return Check(
        lambda value: None if set(value) <= set(choices) else says,
        f"any of {', '.join(choices)}",
        lambda value: next(item for item in value if item not in choices),
    )


def by_name(tables: Iterable[Iterable[Definition]]) -> dict[str, Definition]:
    """Tables as one dictionary; a name must stand in one of them only."""
    found: dict[str, Definition] = {}
    for table in tables:
        for definition in table:
            assert definition.name not in found, f"{definition.name} is defined twice"
            found[definition.name] = definition
    return found
