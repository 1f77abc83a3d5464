"""Columns of values that hurt, and random expressions over them, for the pattern language and for Spark.

An expression is a text in the pattern language over `A`, the row: `A.d >= 9.99`. The same text without `A.`
is Spark's.
"""

from __future__ import annotations

from random import Random

_EDGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_FRACTIONS = ("0", "-0.0", "NaN", "Infinity", "-Infinity", "1", "-2.5", "0.1", "1e-40", "9.99", "3")
_DECIMALS = ("0", "9.99", "-9.99", "0.01", "1", "3", "-1", "2.5")


def _whole(type: str) -> tuple[str, ...]:
    most = 2 ** _EDGES[type] - 1
    found = (0, 1, -1, 2, 3, 7, 10, -100, most, -most - 1, most - 1)
    return (*(f"CAST('{each}' AS {type})" for each in found), "NULL")


def _decimal(precision: int, scale: int) -> tuple[str, ...]:
    type = f"DECIMAL({precision},{scale})"
    nines = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
    some = "123456789012345678901234567890123456789"[: precision - scale]
    rest = "987654321098765432109876543210987654321"[:scale]
    found = [*_DECIMALS, nines, f"-{nines}", f"{some or 0}.{rest}", f"0.{'0' * (scale - 1)}1"]
    return (*(f"coalesce(try_cast('{each}' AS {type}), 0)" for each in found), "NULL")


def _fraction(type: str, *more: str) -> tuple[str, ...]:
    return (*(f"CAST('{each}' AS {type})" for each in (*_FRACTIONS, *more)), "NULL")


DAYS = ("0001-01-01", "1582-10-15", "1969-12-31", "1970-01-01", "2026-03-29", "9999-12-31")
CLOCKS = ("00:00:00", "02:30:00.000001", "23:59:59.999999")
TEXTS = (
    "",
    "a",
    "ab",
    "e\u0301",
    "\u00e9",
    "\U0001f600",
    "\ue000",
    "a%b",
    "a_b",
    "a\\\\b",
    "\u0000",
)
INTERVALS = ("INTERVAL 5 MINUTES", "INTERVAL 1 DAY", "INTERVAL 90 SECONDS", "INTERVAL 1.5 SECONDS")
NUMBERS = ("0", "1", "2", "3", "9.99", "2.5", "0.001", "1e3", "-1", "7L", "0.1D", "1.50BD", "NULL")
NUMBERS += (
    "9223372036854775807",
    "12345678901234567890.123456789012345678",
    "-0.0",
    "1e-320",
    "100",
)

VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "y": ("TINYINT", _whole("TINYINT")),
    "h": ("SMALLINT", _whole("SMALLINT")),
    "i": ("INT", _whole("INT")),
    "l": ("BIGINT", _whole("BIGINT")),
    "f": ("FLOAT", _fraction("FLOAT", "3.4028235e38", "16777217")),
    "x": ("DOUBLE", _fraction("DOUBLE", "1e17", "9007199254740993", "1.7976931348623157e308")),
    "v": ("DOUBLE", _fraction("DOUBLE", "4.9e-324", "-1e308")),
    "c": ("DECIMAL(3,2)", _decimal(3, 2)),
    "d": ("DECIMAL(12,2)", _decimal(12, 2)),
    "g": ("DECIMAL(20,20)", _decimal(20, 20)),
    "m": ("DECIMAL(38,0)", _decimal(38, 0)),
    "e": ("DECIMAL(38,18)", _decimal(38, 18)),
    "s": ("STRING", (*(f"'{each}'" for each in TEXTS), "NULL")),
    "u": ("STRING", (*(f"'{each}'" for each in TEXTS), "NULL")),
    "b": ("BOOLEAN", ("TRUE", "FALSE", "NULL")),
    "o": ("DATE", (*(f"DATE '{day}'" for day in DAYS), "NULL")),
    "t": ("TIMESTAMP", (*(f"TIMESTAMP '{d} {c}'" for d in DAYS for c in CLOCKS), "NULL")),
    "n": ("TIMESTAMP_NTZ", (*(f"TIMESTAMP_NTZ '{d} {c}'" for d in DAYS for c in CLOCKS), "NULL")),
}
_NUMERIC, _TIMES = "yhilfxvcdgme", "otn"


def relation(choice: Random, rows: int) -> str:
    """`VALUES (…), (…) AS r(y, h, …)`, each value of its column's type."""
    lines = []
    for _ in range(rows):
        chosen = [f"CAST({choice.choice(held)} AS {type})" for type, held in VALUES.values()]
        lines.append(f"({', '.join(chosen)})")
    return f"VALUES {', '.join(lines)} AS r({', '.join(VALUES)})"


class Expressions:
    """Random ones; `condition` and `value` are what a condition and a measure may be."""

    def __init__(self, choice: Random) -> None:
        self._choice = choice

    def any(self) -> str:
        return self.condition(2) if self._choice.random() < 0.5 else self.value(3)

    def condition(self, depth: int) -> str:
        pick = self._choice.random()
        if depth and pick < 0.2:
            word = self._choice.choice(("and", "or"))
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if pick < 0.3:
            return f"(not {self.condition(0)})"
        if pick < 0.4:
            return f"({self.value(1)} is {self._choice.choice(('', 'not '))}null)"
        if pick < 0.5:
            shape = self._choice.choice(("'a%'", "'_'", "'%\\\\%%'", "A.u", "'a\\\\_b'"))
            return f"(A.s like {shape})"
        make = self._choice.choice((self.number, self.number, self.number, self.time, self.text))
        one, two, three = (make(depth) for _ in range(3))
        if pick < 0.6:
            return f"({one} between {two} and {three})"
        if pick < 0.7:
            return f"({one} {self._choice.choice(('', 'not '))}in ({two}, {three}))"
        sign = self._choice.choice(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"))
        return f"({one} {sign} {two})"

    def value(self, depth: int) -> str:
        make = (self.number, self.number, self.number, self.time, self.length, self.text)
        return self._choice.choice(make)(depth)

    def number(self, depth: int) -> str:
        pick = self._choice.random()
        if depth == 0 or pick < 0.15:
            named = f"A.{self._choice.choice(_NUMERIC)}"
            return named if self._choice.random() < 0.75 else self._choice.choice(NUMBERS)
        if pick < 0.65:
            sign = self._choice.choice("+-*/%")
            return f"({self.number(depth - 1)} {sign} {self.number(depth - 1)})"
        if pick < 0.75:
            return f"(- {self.number(depth - 1)})"
        return self._function(self.number, depth)

    def text(self, depth: int) -> str:
        if depth == 0 or self._choice.random() < 0.6:
            return self._choice.choice(("A.s", "A.u", "'ab'", "'e\u0301'", "A.b", "NULL"))
        return self._function(self.text, depth)

    def time(self, depth: int) -> str:
        if depth == 0 or self._choice.random() < 0.4:
            return f"A.{self._choice.choice(_TIMES)}"
        if self._choice.random() < 0.5:
            sign = self._choice.choice("+-")
            return (
                f"({self.time(depth - 1)} {sign} {self._choice.choice((*INTERVALS, '3', 'A.h'))})"
            )
        return self._function(self.time, depth)

    def length(self, depth: int) -> str:
        if depth == 0 or self._choice.random() < 0.2:
            return self._choice.choice(INTERVALS)
        if self._choice.random() < 0.5:
            return f"({self.time(depth - 1)} - {self.time(depth - 1)})"
        sign = self._choice.choice("+-")
        return f"({self.length(depth - 1)} {sign} {self.length(depth - 1)})"

    def _function(self, make: object, depth: int) -> str:
        assert callable(make)
        name = self._choice.choice(("abs", "coalesce", "greatest", "least", "nullif"))
        one, two = make(depth - 1), make(depth - 1)
        if name == "abs":
            return f"abs({one})"
        return f"{name}({one}, {two})"
