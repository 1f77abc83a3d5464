"""Defaults of columns: SQL literals as values of the column's type, and nothing else."""

from __future__ import annotations

import pytest

from headwater.capture.defaults import constant


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0", "int64", 0),
        ("-7", "int32", -7),
        ("('7')", "int32", 7),
        ("'7'", "int64", 7),
        ("40000", "int16", None),
        ("9223372036854775808", "int64", None),
        ("0.5", "double", 0.5),
        ("-1e3", "double", -1000.0),
        ("'O''Fallon'", "string", "O'Fallon"),
        ("''", "string", ""),
        ("current_timestamp()", "string", None),
        ("CURRENT_TIMESTAMP", "int64", None),
        ("NULL", "string", None),
        ("(1 + 2)", "int64", None),
        ("TRUE", "boolean", True),
        ("0", "boolean", False),
        ("x'00'", "bytes", None),
        (None, "int64", None),
    ],
)
def test_a_literal_is_a_value_of_its_type_or_none(text: str | None, kind: str, value: object):
    found = constant(text, {"type": kind})
    assert found == value
    assert type(found) is type(value)


def test_times_have_no_constant():
    assert constant("0", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}) is None
