"""Two of Spark's sketches that have no function in SQL: count-min and Bloom, through Spark's own classes.

Called by `sketches`. Spark has both in its JVM (`org.apache.spark.util.sketch`) and lets Python make a
count-min sketch but not read one, and no Bloom filter at all. So these need a session with a JVM of its own;
with Spark Connect there is none, which is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError
from headwater.processing.fingerprints import NotAsked, Value, fingerprint, fingerprint_of

if TYPE_CHECKING:
    from pyspark.sql import Column


class NoJvm(HeadwaterError):
    """What Python cannot reach through Spark Connect."""


def bloom_aggregate(column: str, items: int, fpp: float) -> Column:
    """The aggregate that Spark's optimizer uses for joins."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.classic.column import Column as Classic

    jvm = _jvm()
    # Values go in as their hash: the aggregate's own texts are not in every version.
    hashed: Any = fingerprint(column)
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    bits = max(64, math.ceil(-items * math.log(fpp) / math.log(2) ** 2))
    counts = [utils.expression(F.lit(number).cast("long")._jc) for number in (items, bits)]
    kind = jvm.org.apache.spark.sql.catalyst.expressions.aggregate.BloomFilterAggregate
    aggregate = kind(utils.expression(hashed._jc), *counts)
    return Classic(utils.column(aggregate.toAggregateExpression()))


def bloom_filter(sketch: bytes) -> BloomFilter:
    return BloomFilter(_jvm().org.apache.spark.util.sketch.BloomFilter.readFrom(_stream(sketch)))


def count_min_sketch(sketch: bytes) -> CountMin:
    return CountMin(_jvm().org.apache.spark.util.sketch.CountMinSketch.readFrom(_stream(sketch)))


class _Read:
    """A sketch in the JVM."""

    def __init__(self, sketch: Any) -> None:
        self._sketch = sketch

    def merged(self, others: Iterable[Any]) -> bytes:
        """This one with the others in it."""
        for each in others:
            self._sketch.mergeInPlace(each._sketch)
        out = _jvm().java.io.ByteArrayOutputStream()
        self._sketch.writeTo(out)
        return bytes(out.toByteArray())


class BloomFilter(_Read):
    def contains(self, value: Value) -> bool:
        return bool(self._sketch.mightContainLong(fingerprint_of(value, _jvm())))


class CountMin(_Read):
    def count(self, value: str | int | bytes) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | bytes | bytearray):
            raise NotAsked(
                f"a count-min sketch cannot be asked for {type(value).__name__}",
                hint="ask for a text, a whole number or bytes, as the column has them",
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return 0  # no column of whole numbers has it
        return int(self._sketch.estimateCount(value))


def _stream(sketch: bytes) -> Any:
    return _jvm().java.io.ByteArrayInputStream(bytes(sketch))


def _jvm() -> Any:
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None:
        raise NoJvm(
            "Bloom filters and counts from count-min sketches need a Spark session with its own JVM",
            hint="make one with headwater.session(); Spark Connect has none",
        )
    return context._jvm
