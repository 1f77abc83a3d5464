"""A process that appends 0, 1, 2, … each under its own key, and says so; to be killed."""

from __future__ import annotations

import asyncio
import sys

from headwater.browse.log import Log
from headwater.browse.publishing import Draft
from headwater.edges.once import Once


async def main(bootstrap: str, topic: str) -> None:
    once = Once(Log(bootstrap), topic)
    await once.start()
    for number in range(100_000):
        answer = await once.append(topic, f"k{number % 200}", [Draft(None, b"%d" % (number % 200))])
        print(number % 200, answer.is_new, flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2]))
