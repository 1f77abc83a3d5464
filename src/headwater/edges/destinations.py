"""Topics that the file names as destinations: made where they are missing, before any service starts.

As captures do. What somebody sends to by HTTP, or reads from, is never made: it would mostly be misspelt.
"""

from __future__ import annotations

import asyncio
import logging

from headwater.browse.making import ensure
from headwater.edges.config import Edges
from headwater.edges.context import Context
from headwater.errors import HeadwaterError

AGAIN_S = 1.0
_TOPIC = "topic:"
_log = logging.getLogger("headwater.edges")


def named(edges: Edges) -> list[str]:
    """Of hooks, of bridges into the log, and of alerts that are told to a topic."""
    found = {section["topic"] for section in edges.hooks.values() if "topic" in section}
    for section in (*edges.bridges.values(), *edges.alerts.values()):
        for to in _texts(section.get("to")):
            if to.startswith(_TOPIC):
                found.add(to.removeprefix(_TOPIC))
    return sorted(found)


def _texts(value: object) -> list[str]:
    return [
        each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
    ]


async def made(context: Context) -> None:
    """Until all are there, however long the log is away."""
    wanted = named(context.edges)
    told = False
    while wanted:
        try:
            for topic in wanted:
                await asyncio.to_thread(ensure, context.log, topic)
            return
        except HeadwaterError as error:
            if not told:
                _log.warning("waiting for the log, to make topics: %s", error)
            told = True
        except Exception:  # without these topics no service would ever start
            _log.exception("making topics failed; it is tried again")
        await asyncio.sleep(AGAIN_S)
