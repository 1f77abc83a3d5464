"""Decimals in JSON as people and programs write them, and what they are in a column of a declared type."""

from __future__ import annotations

from decimal import Context, Decimal

from hypothesis import strategies as st

EXACT = Context(prec=500)
TYPES = [(3, 2), (10, 0), (20, 2), (20, 20), (38, 0), (38, 18), (38, 38)]


def fits(text: str, precision: int, scale: int) -> Decimal | None:
    """The number that the text is, if it is one of DECIMAL(precision, scale)."""
    number = Decimal(text)
    if number and number.adjusted() >= precision - scale:
        return None
    exact = EXACT.quantize(number, Decimal(1).scaleb(-scale))
    return abs(exact) if exact == number == 0 else exact if exact == number else None


_digits = st.text("0123456789", max_size=45)
_whole = st.one_of(
    st.just("0"), st.builds(lambda a, b: a + b, st.sampled_from("123456789"), _digits)
)
_exponent = st.one_of(
    st.just(""), st.builds(lambda e, n: f"{e}{n}", st.sampled_from("eE"), st.integers(-60, 60))
)
_any = st.builds(
    lambda sign, whole, fraction, exponent: (
        f"{sign}{whole}{'.' + fraction if fraction else ''}{exponent}"
    ),
    st.sampled_from(["", "-"]),
    _whole,
    _digits,
    _exponent,
)


def _of(precision: int, scale: int) -> st.SearchStrategy[str]:
    """Mostly numbers of the type, some with zeros behind, some with a digit too many."""
    most = 10**precision - 1
    plain = st.integers(-most, most).map(lambda n: format(Decimal(n).scaleb(-scale, EXACT), "f"))
    zeros = st.sampled_from(["", "", "0", "000000", "0" * 40, "1"])
    return plain.flatmap(
        lambda text: zeros.map(lambda z: text + z if "." in text or not z else f"{text}.{z}")
    )


def numbers(precision: int, scale: int) -> st.SearchStrategy[str]:
    """As they stand in the JSON: a number, or a text that is one."""
    text = st.one_of(_of(precision, scale), _of(precision, scale), _any)
    return st.one_of(text, text, text.map(lambda number: f'"{number}"'))
