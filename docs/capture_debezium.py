"""The page of what differs from Debezium, from what running both has written down; for `generate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bench.capture.debezium import VERSION
from tests.capture.contract.test_debezium import LEDGER, NOT_THERE

HEAD = f"""
# What differs from Debezium

Debezium {VERSION} and headwater capture the same table on one server, with a column of every type of the
[contract](capture-servers.md): a row that is there, one that is inserted, changed, given another key and
deleted; on MongoDB a document with a field for every kind of value. Their records are compared field by field
(`tests/capture/contract/test_debezium.py`); the test fails on a difference that is not below, and on one that
is no longer there. Debezium runs with `decimal.handling.mode=string`, `interval.handling.mode=string`,
`include.unknown.datatypes=true` and `provide.transaction.metadata=true`, on MongoDB with
`capture.mode=change_streams_update_full`, the texts of documents being compared as what they say. Topics have
other names there, and versions, names and times are never the same. Left out of the table,
because Debezium ends at it: MariaDB's {", ".join(NOT_THERE)}.
"""


def page() -> str:
    known = json.loads(LEDGER.read_text())
    return "\n".join([HEAD, *(line for name in known for line in _part(name, known[name]))])


def _part(name: str, seen: dict[str, Any]) -> Iterator[str]:
    yield f"## {name}\n"
    if seen["columns"]:
        yield "| type | here | Debezium |"
        yield "|---|---|---|"
        for kind, (ours, theirs) in sorted(seen["columns"].items()):
            yield f"| `{_cell(kind)}` | {_value(ours)} | {_value(theirs)} |"
        yield ""
    if seen["records"]:
        yield "In the rest of the records:\n"
        yield from (f"- {one}" for one in seen["records"])
        yield ""


def _value(text: str | None) -> str:
    return "not there" if text is None else f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")
