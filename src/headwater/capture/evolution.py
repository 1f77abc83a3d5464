"""What a changed table means to those who read its topic; part of each record on the schema topic.

Called by sources when a table gets other columns. The policy, which docs/capture.md states for readers:

| change  | rows from here on            | what a view does                                             |
|---------|------------------------------|--------------------------------------------------------------|
| added   | have the column              | goes on; shows it once its query names it                    |
| dropped | do not have the column       | goes on; reads null there                                    |
| retyped | have values of another form  | is rebuilt by a query that fits; until then, what does not   |
|         |                              | fit its schema is a dead letter                              |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POLICY = {"added": "flows", "dropped": "null", "retyped": "rebuild"}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Columns by name, each with whatever its type is compared by."""
    found = {
        "added": [name for name in new if name not in old],
        "dropped": [name for name in old if name not in new],
        "retyped": [name for name in new if name in old and old[name] != new[name]],
    }
    policy = {name: POLICY[kind] for kind, names in found.items() for name in names}
    return {**found, "policy": policy}
