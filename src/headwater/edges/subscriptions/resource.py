"""A subscription as an answer shows it; pure. For `routes`."""

from __future__ import annotations

import msgspec

from headwater.edges.subscriptions.entry import Entry
from headwater.secrets import shown

_NEVER = ("secrets", "id", "start")


def resource(entry: Entry, now_ms: int, *, is_ones_own: bool = True) -> dict[str, object]:
    """Who may only look is not shown a secret that somebody has written into the address."""
    said = {key: each for key, each in msgspec.to_builtins(entry).items() if key not in _NEVER}
    ends = [each.until_ms for each in entry.secrets[1:] if (each.until_ms or 0) > now_ms]
    to = entry.to if is_ones_own else shown(entry.to)
    return {**said, "to": to, "old_secret_until_ms": ends[0] if ends else None}
