"""Text to values and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.settings import BadValue, Definition, Kind
from headwater.broker.settings.definitions import parse, public, render


def _of(kind: Kind) -> Definition:
    return Definition("x", kind, None, "")


@pytest.mark.parametrize(("kind", "bits"), [(Kind.SHORT, 16), (Kind.INT, 32), (Kind.LONG, 64)])
def test_whole_numbers_end_where_their_bits_end(kind, bits):
    bound = 2 ** (bits - 1)
    assert parse(_of(kind), str(bound - 1)) == bound - 1
    assert parse(_of(kind), str(-bound)) == -bound
    for text in (str(bound), str(-bound - 1), "9" * 10_000, "1.0", "1_0", "0x1", "", "-", "+-1"):
        with pytest.raises(BadValue, match=f"Not a number of type {kind.name}"):
            parse(_of(kind), text)


@given(st.text())
def test_any_text_is_a_value_or_a_bad_value(text):
    for kind in Kind:
        try:
            value = parse(_of(kind), text)
        except BadValue:
            continue
        shown = render(value)
        assert shown is not None
        assert render(parse(_of(kind), shown)) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e300, "1.0E300"),
        (["a", "b"], "a,b"),
        ([], ""),
        ("s", "s"),
        (None, None),
    ],
)
def test_values_are_written_as_java_writes_them(value, text):
    assert render(value) == text


def test_a_list_keeps_its_order_and_loses_what_it_says_twice():
    assert parse(_of(Kind.LIST), " b , a,b ") == ["b", "a"]
    assert parse(_of(Kind.LIST), "  ") == []
    with pytest.raises(BadValue, match="Configuration 'x' values must not be empty"):
        parse(_of(Kind.LIST), "a,,b")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("https://u:SECRET@h/keys?token=SECRET", "https://***@h/keys?***"),
        ("https://SECRET@h/keys", "https://***@h/keys"),
        ("https://u:SEC,RET/@RET@h/keys", "https://***@h/keys"),
        ("https://h:443/keys?SECRET", "https://h:443/keys?***"),
        ("PLAINTEXT://a:9092,SASL_SSL://b:9093", "PLAINTEXT://a:9092,SASL_SSL://b:9093"),
        ("what?", "what?"),
        (None, None),
    ],
)
def test_no_secret_in_an_address_is_shown(text: str | None, seen: str | None) -> None:
    assert public(text) == seen
