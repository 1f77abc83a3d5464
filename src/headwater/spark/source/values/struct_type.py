"""A record's type as Spark's SQL spells it, no longer than anybody's columns are.

Types that are each of two that are each of two … are a few hundred bytes in a schema, and without end where
every column is spelt out: `registry_types` and `avro` stop before that, field by field.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.client.errors import BadOption

LETTERS_MAX = 1_000_000
"""Of all columns with their types: some 20,000 of them."""


def struct(fields: Iterable[tuple[str, str]]) -> str:
    """STRUCT<…> of names, as they are spelt, with their types. Raises BadOption."""
    made: list[str] = []
    letters = 0
    for name, kind in fields:
        made.append(f"{name}: {kind}")
        letters += len(made[-1])
        if letters > LETTERS_MAX:
            raise BadOption(
                f"The schema's columns and their types take more than {LETTERS_MAX:,} letters.",
                hint="Give schema= with the columns that are wanted.",
            )
    return f"STRUCT<{', '.join(made)}>"
