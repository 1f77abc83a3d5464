"""Decimals in changes come out as they were written, in every form of a change, or are bad values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.views.tables import change_stream
from headwater.views.tables.bad_values import BadValue
from headwater.views.tables.decoder import Decoder, Table
from tests.spark.json_decimals import EXACT, fits, numbers

RECORD = "topic STRING, key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
FORMS = (
    "{}",
    '{{"op": "u", "before": null, "after": {}}}',
    '{{"schema": {{}}, "payload": {{"op": "c", "after": {}}}}}',
)
SIZES = [(20, 2), (38, 18)]


def is_seen(text: str, size: tuple[int, int]) -> bool:
    """Spark holds 38 digits: what stands behind them it cannot show."""
    number = Decimal(text.strip('"')).normalize(EXACT)
    behind, front = -int(number.as_tuple().exponent), number.adjusted() + 1
    if size[0] < 38:
        return behind <= 38 - size[0] + size[1]
    return behind <= size[1] or (behind <= size[1] + 10 and front <= 38 - size[1] - 10)


def records(texts: list[str]) -> list[tuple[Any, ...]]:
    found = []
    for text in texts:
        for form in FORMS:
            deep = f'{{"rows": [{{"v": {text}}}]}}'
            row = f'{{"id": {len(found)}, "v": {text}, "l": [1, {text}], "m": {{"a": {text}}}, "s": {deep}}}'
            value = form.format(row)
            found.append(("t", None, bytearray(value.encode()), 0, len(found), None))
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", SIZES)
def test_a_decimal_is_exact_in_every_form_or_a_bad_value(
    spark: SparkSession, size: tuple[int, int]
):
    kind = f"DECIMAL({size[0]},{size[1]})"
    deep = f"STRUCT<rows: ARRAY<STRUCT<v: {kind}>>>"
    row = StructType.fromDDL(
        f"id BIGINT, v {kind}, l ARRAY<{kind}>, m MAP<STRING, {kind}>, s {deep}"
    )

    @settings(max_examples=2, deadline=None, phases=[Phase.generate])
    @given(
        st.lists(numbers(*size).filter(lambda text: is_seen(text, size)), min_size=20, max_size=20)
    )
    def check(texts: list[str]) -> None:
        texts = [*texts, "123456789012345678.91", "1.239", "1.2300", "1.5e3"]
        texts = [text for text in texts if is_seen(text, size)]
        rows = records(texts)
        frame = spark.createDataFrame(rows, RECORD)
        wanted = {}
        for number in range(len(rows)):
            exact = fits(texts[number // len(FORMS)].strip('"'), *size)
            if exact is not None:
                wanted[number] = [exact, [Decimal(1), exact], {"a": exact}, exact]
        assert by_stream(frame, row) == wanted
        assert by_view(frame, row) == wanted

    check()


def by_stream(frame: Any, row: StructType) -> dict[int, list[Any]]:
    """As `hw.table` reads changes."""
    table = Table("t", row, ("id",))
    found = change_stream.changes(frame, table, None)
    return {
        each["id"]: [each["v"], each["l"], each["m"], each["s"]["rows"][0]["v"]]
        for each in found.select("id", "v", "l", "m", "s").collect()
    }


def by_view(frame: Any, row: StructType) -> dict[int, list[Any]]:
    """As a view over tables reads them."""
    bad: list[BadValue] = []
    (found,) = Decoder([Table("t", row, ("id",))], bad.extend)(frame.withColumn("p", F.lit(0)))
    rows = {
        each["c0"]: [each["c1"], each["c2"], dict(each["c3"]), each["c4"]["rows"][0]["v"]]
        for each in found.to_pylist()
    }
    assert all("decimal" in each.reason for each in bad)
    assert not {each.offset for each in bad} & set(rows)
    assert json.loads(bad[0].value) if bad else True
    return rows
