"""What JSON says, to the last digit: for who stores it as another form has it, or refuses it.

A number with a point stays a Decimal until it is known what holds it. What JSON's parsers do not agree on
(a name that stands twice, NaN) is refused, as each reader would find another value.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections import Counter
from collections.abc import Callable
from decimal import Context, Decimal

from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import Json

_SHOWN = 300
_SURE_DIGITS = {False: 15, True: 6}
"""Of a double and of a float: any number of so few is found again, unless it is very large or small."""
_SURE_RANGE = {False: (1e-290, 1e300), True: (1e-30, 1e30)}
_SINGLE = struct.Struct("<f")


def loads(
    text: bytes | str,
    parse_float: Callable[[str], Json] = Decimal,
    parse_int: Callable[[str], Json] | None = None,
) -> Json:
    """Raises NotOfItsSchema."""
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded, parse_float=parse_float, parse_int=parse_int,
                          parse_constant=_no_constant, object_pairs_hook=_object)  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise NotOfItsSchema(f"it is no JSON: {error}"[:_SHOWN]) from None


def _no_constant(text: str) -> Json:
    raise ValueError(f"{text} is no number there")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise NotOfItsSchema(f"the field {twice[:100]} stands twice in one object")
    return found


def floating(value: float | Decimal, *, is_single: bool = False) -> float:
    """The double (or float) that has these digits. Raises ValueError, OverflowError: there is none."""
    found = float(value)
    if not math.isfinite(found):
        raise OverflowError
    if is_single:
        (found,) = _SINGLE.unpack(_SINGLE.pack(found))
    if not is_single and repr(found) == str(value):
        return found
    if isinstance(value, float) and found == value:
        return found
    sent = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    digits = len(sent.as_tuple().digits)
    least, most = _SURE_RANGE[is_single]
    if digits <= _SURE_DIGITS[is_single] and (not sent or least < abs(found) < most):
        return found
    if Context(prec=digits).create_decimal_from_float(found) != sent:
        raise ValueError
    return found


def shown(value: float) -> float | str:
    """As JSON has it: what is no number there is a text, as Spark and captures write it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def base64_bytes(text: str) -> bytes:
    """Raises ValueError for what would not be written so again."""
    data = base64.b64decode(text, validate=True)
    if binascii.b2a_base64(data, newline=False).decode() != text:
        raise ValueError
    return data
