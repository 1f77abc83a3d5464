"""A strict reader of a capture: knows each table's shape from the schema topic, and believes nothing.

A created row must not be there; an updated or deleted one must be there exactly as its before image
says. So a change that is missing, doubled or out of its order cannot pass unnoticed.
"""

from __future__ import annotations

import json
from typing import Any


class Reader:
    """Fed with records in the order of the changes."""

    def __init__(self, capture: str = "shop") -> None:
        self._capture = capture
        self.tables: dict[str, dict[str, Any]] = {}
        self.changes = 0

    def take(self, topic: str, key: Any, value: Any) -> None:
        """`key` and `value` are decoded."""
        if value is None or topic == f"{self._capture}.transaction":
            return
        if topic == f"{self._capture}.schema-changes":
            self._schema(value["tableChanges"][0])
            return
        rows = self.tables.setdefault(topic.partition(".")[2], {})
        name = json.dumps(key)
        self.changes += 1
        if topic == f"{self._capture}.notes":
            self._believe(rows, name, value)
            return
        match value["op"]:
            case "t":
                rows.clear()
            case "d":
                assert rows.pop(name) == value["before"], (topic, value)
            case "u":
                assert rows[name] == value["before"], (topic, rows[name], value)
                rows[name] = value["after"]
            case "c":
                assert name not in rows, (topic, rows[name], value)
                rows[name] = value["after"]
            case "r":
                # After VACUUM in mid-snapshot, rows are read again: then as the reader has them.
                assert rows.get(name, value["after"]) == value["after"], (topic, value)
                rows[name] = value["after"]

    def _believe(self, rows: dict[str, Any], name: str, value: Any) -> None:
        """`notes` has no key: until VACUUM is noticed, its rows go under each other's numbers."""
        if value["op"] == "t":
            rows.clear()
        elif value["op"] == "d":
            rows.pop(name, None)
        else:
            rows[name] = value["after"]

    def _schema(self, change: dict[str, Any]) -> None:
        """Rows that are known take the new shape: renamed columns, defaults of added ones."""
        rows = self.tables.setdefault(json.loads(change["id"]), {})
        columns = change["table"]["columns"]
        defaults = {column["name"]: column["defaultValueExpression"] for column in columns}
        for name, row in rows.items():
            renamed = {change["renamedColumns"].get(old, old): value for old, value in row.items()}
            order = [c for c in renamed if c not in defaults] + list(defaults)
            rows[name] = {
                column: renamed[column]
                if column in renamed
                else json.loads((defaults[column] or "null").lower())
                for column in order
            }
