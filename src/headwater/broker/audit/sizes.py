"""How much the audit repeats of what clients say: nobody can fill it, the memory or a turn of the loop by it.

    text                         250 characters   `bounded`; its length is told
    configs, topics of a change  64               the rest is counted
    changes of a request         1000             done; the rest is counted
    refusals of a principal      100 at once      `refusals`; then 10 a minute, the rest is counted
    line                         16 KiB           `line`; of its details the beginning
    batch                        1 MiB            `trail`
    lines that wait              16 MiB           `trail`; the rest is lost, which the health tells

Whatever a describer forgets to cut, `line` cuts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import islice

from headwater.broker.bounds import shown

TEXT_CHARS_MAX = 250
ITEMS_MAX = 64
"""More than a broker has settings that can be altered while it runs."""
PLAIN_MAX = 5
"""Details of a refused change."""
CHANGES_MAX = 1000
LINE_BYTES_MAX = 16 * 1024
_DETAILS_CHARS_MAX = 2000
"""Of a line that is too long: its other texts, written at 12 bytes a character, fit beside them."""


def bounded(value: object) -> object:
    """As it may stand in a line: whatever a client has sent."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        few = {str(bounded(str(k))): bounded(v) for k, v in islice(value.items(), ITEMS_MAX + 1)}
        left = len(value) - len(few)
        return {**few, "and more": left} if left > 0 else few
    if isinstance(value, list | tuple):
        some = [bounded(each) for each in value[: ITEMS_MAX + 1]]
        left = len(value) - len(some)
        return [*some, f"and {left} more"] if left > 0 else some
    return shown(str(value), TEXT_CHARS_MAX)


def line(said: Mapping[str, object]) -> bytes:
    """One line of the audit, in JSON."""
    few = {name: bounded(value) for name, value in said.items()}
    written = json.dumps(few, sort_keys=True).encode()
    if len(written) <= LINE_BYTES_MAX:
        return written
    beginning = json.dumps(few["details"])[:_DETAILS_CHARS_MAX]
    return json.dumps({**few, "details": {"cut": beginning}}, sort_keys=True).encode()
