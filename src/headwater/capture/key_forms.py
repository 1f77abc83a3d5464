"""Under which keys a table's rows stand in its topic: what sources note in their positions as `keys`.

A key has a form: the names and types of its columns as they are written, or the id of its schema where it
begins with one. No event of a database says that its rows have another key from now on, and nothing that is
written under keys of one form replaces what stands under keys of another. So a source asks `is_redefined`
before it writes a row, and begins the table anew where it is.
"""

from __future__ import annotations

import hashlib

from headwater.capture.envelope import Column, TableEncoder, dumps

_INTEGERS = frozenset(("int8", "int16", "int32", "int64"))


def key_form(encoder: TableEncoder) -> str:
    """Empty where there is no key."""
    if not encoder.key_places:
        return ""
    columns = [encoder.columns[place] for place in encoder.key_places]
    shape = encoder.key_prefix() or [_written(column) for column in columns]
    described = dumps([shape, [column.stored for column in columns]])
    return hashlib.sha256(described.encode()).hexdigest()[:8]


def _written(column: Column) -> list[object]:
    """A column's name, and what its values look like in JSON: a wider integer looks the same."""
    shape = dict(column.connect)
    if shape["type"] in _INTEGERS and "name" not in shape:
        return [column.name, "integer"]
    parameters = {k: v for k, v in shape.pop("parameters", {}).items() if k != "allowed"}
    return [column.name, shape, parameters]


def is_redefined(keys: dict[str, str], table: str, form: str, *, is_same: bool = False) -> bool:
    """Whether readers have rows of the table under keys of another form; from now on it is noted as this one.

    `is_same`: what to take it for where nothing is noted, as in positions of earlier versions.
    """
    known = keys.get(table)
    keys[table] = form
    return known != form if known is not None else not is_same


def is_known(keys: dict[str, str], table: str, form: str) -> bool:
    """Whether a place in the order of the key may be gone on from."""
    return keys.get(table) in (None, form)
