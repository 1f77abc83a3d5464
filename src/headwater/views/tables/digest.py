"""What makes a row this one and no other, as SQL of the state's engine: compared, and hashed to a digest.

Used by `store` and `state`, which keep a digest of each row that a view holds, and by `net_changes`. A digest
that two rows share would hide a change of one into the other, so it *must* not be made of a value alone
where DuckDB is known to give two values one hash: 0 and -1 of its numbers of 16 bytes (decimals of more than
18 digits), intervals whose days and microseconds are exchanged, an empty list, no list, and a list or struct
with nothing but nulls. Beside such a value its text is hashed. Both zeros have one hash too: beside a
floating-point number goes its sign.
"""

from __future__ import annotations

import pyarrow as pa

_DIGITS_MAX = 18
"""Of decimals that are numbers of 8 bytes or less."""
_BY_ITSELF = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
"""Kinds of values whose hashes differ as they do, but for both zeros."""


def exactly(columns: pa.Schema, side: str = "") -> list[str]:
    """SQL of all that makes a row this one and no other."""
    names = [f"{side}{name}" for name in columns.names]
    kinds = list(zip(names, columns.types, strict=True))
    signs = [f"signbit({name})" for name, kind in kinds if pa.types.is_floating(kind)]
    texts = [f"CAST({name} AS VARCHAR)" for name, kind in kinds if not _is_told_by_itself(kind)]
    return [*names, *signs, *texts]


def hashed(schema: pa.Schema) -> str:
    """What a row's digest is made of."""
    numbered = pa.schema([field.with_name(f"v{n}") for n, field in enumerate(schema)])
    return ", ".join(exactly(numbered))


def _is_told_by_itself(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _DIGITS_MAX)
    return any(is_kind(kind) for is_kind in _BY_ITSELF)
