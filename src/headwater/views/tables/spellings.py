"""Values that are spelled so that Spark would read others: found in a value's JSON before it does.

Asked by `decoder` and `json_parts`. Milliseconds or microseconds, taken for seconds, are a time in another
millennium, and nothing would say so; tomorrow "12:30" would be another time than today; 200 becomes a TINYINT
of -56, "1,5" a DECIMAL of 15, and 1e400 is infinite. Such a value is a bad one instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_PLAIN = re.compile(r"\w+", re.ASCII)
_DAY = r"\s*[+-]?\d+-\d"
"""How a time begins that has one."""
_FINER = r"\.\d{6}\d*[1-9]"
"""A second with more digits than a time has."""
_MISREAD = {
    "timestamp": rf"^(?!{_DAY})|{_FINER}",
    "timestamp_ntz": _FINER,
    "float": '^"',
    "double": '^"',
    "decimal": r"[^-+0-9.eE\s]",
    "tinyint": r"^(12[89]|1[3-9]\d|2\d\d)$",
}
"""Which texts are misread as a type. A number that is too large for a float is `"Infinity"`, with its quotes,
where Spark reads it as a text."""
_NAMED = {"timestamp": rf'"{_DAY}', "decimal": r'-?[0-9]|"[-+0-9.eE]*"'}
"""What is beyond doubt in JSON behind the name of a field."""
_ANYWHERE = {
    "timestamp": r":\d\d\.\d{7}",
    "timestamp_ntz": r":\d\d\.\d{7}",
    "float": r"\d[eE]\+?\d\d|\d{101}",
    "double": r"\d[eE]\+?\d\d|\d{101}",
    "tinyint": r"[:\[,]\s*(?:12[89]|1[3-9]\d|2\d\d)\s*[,\]\}]",
}
"""What is in the JSON of a value that is misread."""

_PERHAPS_MORE = r'\}\s*(,\s*[^"\s]|[^\s,\]\}])|[^}\s]\s*$'
"""Text that may go on after an object; a second look costs as much as the first."""

_HALF_CHARACTER = (
    r"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F])"
)
"""A surrogate without its other half, as an escape that is none of a backslash."""


def is_misread(text: Column, row: StructType) -> Column:
    """Whether a value of the row is spelled so in the text."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructType

    texts = reduced(row, lambda kind: StringType() if _name(kind) in _MISREAD else None)
    if not isinstance(texts, StructType):
        return F.lit(False)
    found = _known(F.from_json(text, texts), row)
    carriers = list(_carriers(row))
    if not all(_PLAIN.fullmatch(name) for name, kind in carriers if kind in _NAMED):
        return found
    # Parsing once more is dear, and most values are beyond doubt; an escape may hide what a text says.
    looks = sorted({_ANYWHERE[kind] for _, kind in carriers if kind in _ANYWHERE})
    for each, good in _NAMED.items():
        if names := sorted({name for name, kind in carriers if kind == each}):
            looks.append(rf'"({"|".join(names)})"\s*:\s*+(?!null|{good})')
    doubt = text.rlike("|".join(looks))
    if any(kind in _NAMED or kind == "timestamp_ntz" for _, kind in carriers):
        doubt = doubt | text.contains("\\u")
    return F.when(doubt, found).otherwise(F.lit(False))


def is_whole(text: Column) -> Column:
    """Whether nothing comes after the first JSON value: Spark reads that one, and not what follows. And
    whether all of its characters are whole: of half a pair Spark makes a question mark."""
    from pyspark.sql import functions as F  # noqa: N812

    around = F.concat(F.lit("["), text, F.lit("]"))
    one = F.coalesce(F.size(F.from_json(around, "ARRAY<STRING>")) == 1, F.lit(False))
    one = F.when(text.rlike(_PERHAPS_MORE), one).otherwise(F.lit(True))
    return F.when(text.rlike(_HALF_CHARACTER), F.lit(False)).otherwise(one)


def is_misread_alone(text: Column, kind: DataType) -> Column:
    """Whether a text that is no JSON is a time of the type which is spelled so."""
    from pyspark.sql import functions as F  # noqa: N812

    name = _name(kind)
    return text.rlike(_MISREAD[name]) if name.startswith("timestamp") else F.lit(False)


def reduced(kind: DataType, leaf: Callable[[DataType], DataType | None]) -> DataType | None:
    """The type with other leaves, and without those that become None; None where none is left."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        inner = [(each.name, reduced(each.dataType, leaf)) for each in kind.fields]
        found = [t.StructField(name, each) for name, each in inner if each is not None]
        return t.StructType(found) if found else None
    if isinstance(kind, t.ArrayType):
        item = reduced(kind.elementType, leaf)
        return None if item is None else t.ArrayType(item)
    if isinstance(kind, t.MapType):
        item = reduced(kind.valueType, leaf)
        return None if item is None else t.MapType(kind.keyType, item)
    return leaf(kind)


def _name(kind: DataType) -> str:
    return kind.simpleString().partition("(")[0]


def _carriers(kind: DataType, name: str = "") -> Iterator[tuple[str, str]]:
    """The names of the fields that hold values which may be misread, alone or many, and their types."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        for each in kind.fields:
            yield from _carriers(each.dataType, each.name)
    elif isinstance(kind, t.ArrayType):
        yield from _carriers(kind.elementType, name)
    elif isinstance(kind, t.MapType):
        yield from _carriers(kind.valueType, name)
    elif _name(kind) in _MISREAD:
        yield name, _name(kind)


def _any(value: Column, kind: DataType) -> Column:
    """Whether there is one that is misread anywhere."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        kept = [each for each in kind.fields if any(_carriers(each.dataType))]
        return F.greatest(
            F.lit(False), F.lit(False), *(_known(value[f.name], f.dataType) for f in kept)
        )
    if isinstance(kind, t.ArrayType | t.MapType):
        item = kind.elementType if isinstance(kind, t.ArrayType) else kind.valueType
        many = value if isinstance(kind, t.ArrayType) else F.map_values(value)
        return F.exists(many, lambda each: _known(each, item))
    return value.rlike(_MISREAD[_name(kind)])


def _known(value: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(_any(value, kind), F.lit(False))
