"""What a DataFrame must look like to be written, checked on the driver before any task starts.

The columns are those of Spark's Kafka sink:

    column      type                                        null
    value       string or binary; must be there             a tombstone
    key         string or binary                            no key
    headers     array<struct<key: string, value: binary>>   no headers
    topic       string; only without the option `topic`     an error
    partition   int                                         by the key, or spread

Any other column is refused, for it would be lost without a word. The option `topic` wins over the column.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from headwater.client.errors import BadOption
from headwater.spark.sink.errors import BadColumns

KNOWN = ("key", "value", "headers", "topic", "partition")


@dataclass(frozen=True)
class Columns:
    """Where each column is among those that Spark sends; -1 where there is none."""

    value: int
    key: int
    headers: int
    topic: int
    partition: int


def check(schema: StructType, topic: str | None) -> Columns:
    """The columns of the DataFrame. BadColumns or BadOption say what is wrong and what to do."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in KNOWN:
            raise BadColumns(
                f"Column {field.name!r} is no part of a record.",
                hint="A record has value, key, headers, topic and partition: select only those, "
                "or put the others into the value with to_json(struct(...)).",
            )
        if name in places:
            raise BadColumns(f"There are two columns {name!r}.", hint="Select one of them.")
        places[name] = place
        _check_type(name, field.dataType)
    if "value" not in places:
        raise BadColumns(
            "There is no column 'value'.",
            hint="Name the content of the record: df.select(to_json(struct('*')).alias('value')).",
        )
    if topic is None and "topic" not in places:
        raise BadOption(
            "Nobody says to which topic.",
            hint='Give .option("topic", "..."), or a column topic.',
        )
    found = {name: places.get(name, -1) for name in KNOWN}
    if topic is not None:
        found["topic"] = -1
    return Columns(**found)


def _check_type(name: str, found: DataType) -> None:
    if name in ("key", "value"):
        fits = isinstance(found, StringType | BinaryType)
        wanted = "string or binary"
    elif name == "topic":
        fits, wanted = isinstance(found, StringType), "string"
    elif name == "partition":
        fits, wanted = isinstance(found, IntegerType), "int"
    else:
        fits, wanted = _are_headers(found), "array<struct<key: string, value: binary>>"
    if not fits:
        raise BadColumns(
            f"Column {name!r} is {found.simpleString()}, and must be {wanted}.",
            hint="Cast it, or write a struct as text with to_json.",
        )


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = found.elementType.fields
    return (
        [each.name for each in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, StringType | BinaryType)
    )
