"""`python -m bench.edges.listeners PORT PATH COUNT`: clients of a changefeed, in a process of their own.

Says `ready` once all are connected; then, told `N` on standard input, waits until each has had N records (or
half a minute is over) and says what it measured, as one line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time

import uvloop

from bench.edges.clients import Listening, listen

DEADLINE_S = 30.0


async def run(port: int, path: str, count: int) -> None:
    times_ns: list[int] = []
    clients = await listen(port, path, count, times_ns)
    gc.freeze()
    gc.disable()  # a pause here would count as the server's
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    records = int(await loop.run_in_executor(None, sys.stdin.readline))
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and any(each.events < records for each in clients):
        await asyncio.sleep(0.05)
    print(json.dumps(_figures(clients, times_ns, records)), flush=True)
    for each in clients:
        each.transport.abort()


def _figures(clients: list[Listening], times_ns: list[int], records: int) -> dict[str, float]:
    ordered = sorted(times_ns)
    if not ordered:
        return {"received": 0, "complete": 0, "open": 0, "p50_ms": 0.0, "p99_ms": 0.0}
    return {
        "received": len(ordered),
        "complete": sum(each.events == records for each in clients),
        "open": sum(each.is_open for each in clients),
        "p50_ms": ordered[len(ordered) // 2] / 1e6,
        "p99_ms": ordered[int(0.99 * (len(ordered) - 1))] / 1e6,
    }


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))


if __name__ == "__main__":
    main()
