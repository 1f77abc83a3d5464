"""A decimal in JSON comes out as it was written, however deep it stands, or its record is a dead letter."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.spark.source.values.json import JsonValues
from tests.spark.json_decimals import TYPES, fits, numbers

_cases = st.sampled_from(TYPES).flatmap(
    lambda size: st.tuples(st.just(size), st.lists(numbers(*size), min_size=1, max_size=4))
)


def decoded(kind: pa.StructType, text: str) -> Any:
    """The row, or None where it is a dead letter."""
    found, bad = JsonValues(kind).convert(pa.array([text.encode()], pa.binary()))
    found.validate(full=True)
    assert len(found) + len(bad) == 1
    return found.to_pylist()[0] if len(found) else None


@given(_cases, st.booleans())
@example(((20, 2), ["123456789012345678.91"]), True)
@example(((38, 18), ["12345678901234567890.123456789012345678"]), True)
@example(((3, 2), ["1.500000000000000000000000000000000000000"]), False)
def test_a_decimal_is_exact_wherever_it_stands_or_does_not_fit(
    case: tuple[tuple[int, int], list[str]], with_map: bool
) -> None:
    size, texts = case
    decimal = pa.decimal128(*size)
    fields = [
        pa.field("one", decimal),
        pa.field("list", pa.list_(decimal)),
        pa.field("deep", pa.struct([("rows", pa.list_(pa.struct([("v", decimal)])))])),
    ]
    if with_map:
        fields.append(pa.field("map", pa.map_(pa.string(), decimal)))
        fields.append(pa.field("maps", pa.list_(pa.map_(pa.string(), pa.list_(decimal)))))
    every = ", ".join(texts)
    rows = ", ".join(f'{{"v": {text}}}' for text in texts)
    named = ", ".join(f'"k{n}": {text}' for n, text in enumerate(texts))
    text = (
        f'{{"one": {texts[0]}, "list": [{every}, null], "deep": {{"rows": [{rows}]}}, '
        f'"map": {{{named}}}, "maps": [{{"a": [{every}]}}]}}'
    )
    row = decoded(pa.struct(fields), text)
    wanted = [fits(each.strip('"'), *size) for each in texts]
    if None in wanted:
        assert row is None
        return
    assert row is not None, text
    found = [row["one"], row["list"], [each["v"] for each in row["deep"]["rows"]]]
    assert found == [wanted[0], [*wanted, None], wanted]
    if with_map:
        assert row["map"] == [(f"k{n}", each) for n, each in enumerate(wanted)]
        assert row["maps"] == [[("a", wanted)]]


def test_a_number_too_large_for_a_double_is_a_dead_letter_beside_a_map_too() -> None:
    kind = pa.struct([("x", pa.float64()), ("m", pa.map_(pa.string(), pa.float64()))])
    assert decoded(kind, f'{{"x": {"1" * 400}}}') is None
    assert decoded(kind, '{"m": {"a": 1e400}}') is None
    assert decoded(kind, '{"x": 0.1, "m": {"a": 12345678901234567890}}') == {
        "x": 0.1,
        "m": [("a", float(Decimal("12345678901234567890")))],
    }
