"""Whether the addresses of a project are free: asked by the supervisor before it starts anything.

Every new project says 9092, and a client tells one broker from another only by its cluster id. A project
beside another one would write into it; so a taken address starts nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from headwater.errors import HeadwaterError
from headwater.project.hello import Answer, hello
from headwater.project.parts import Part
from headwater.project.ports import cannot_listen

PATIENCE_S = 5.0
"""Parts of a supervisor that has just been killed let go of their addresses within moments."""
_LOOK_EVERY_S = 0.1


class Taken(HeadwaterError):
    """Somebody else has an address of this project."""


def require_free(parts: Iterable[Part], patience_s: float = PATIENCE_S) -> None:
    """Raises Taken for the first address at which nothing could listen."""
    deadline = time.monotonic() + patience_s
    for part in parts:
        address = part.address
        if address is None:
            continue
        while (why := cannot_listen(address)) is not None:
            if time.monotonic() > deadline:
                raise _taken(part, address, why)
            time.sleep(_LOOK_EVERY_S)


def _taken(part: Part, address: str, why: str) -> Taken:
    there = hello(address, timeout_s=1.0)
    sentence = why if there is Answer.NOBODY else f"{address} is taken by {there.value}"
    return Taken(
        f"{sentence}; nothing was started",
        hint=f"stop what is there, or give another `listen` in [{part.section}]",
    )
