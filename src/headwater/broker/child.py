"""Work in a process of its own, so that nobody waits for it: compaction and excision.

What it has to do goes in as JSON, what came of it comes out as JSON. It ends with the broker's task, and by
itself when the broker is gone (`log.worker`).

It is started in a thread: the event loop would have to wait until the new process runs, on a busy machine
for long. And without closing descriptors (none of ours outlives an exec), so that the system can start it
without a copy of this process's page tables (posix_spawn).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from subprocess import PIPE, Popen


class ChildFailed(OSError):
    """The process ended with an error; its last line says why."""


async def run_child(command: Sequence[str], given: str) -> str:
    """What the command prints, given this on its standard input. Raises ChildFailed."""
    loop = asyncio.get_running_loop()
    starting = loop.run_in_executor(None, _start, command)
    talking: asyncio.Future[tuple[str, str]] | None = None
    try:
        process = await asyncio.shield(starting)
        talking = loop.run_in_executor(None, process.communicate, given)
        out, error = await asyncio.shield(talking)
    except asyncio.CancelledError:
        process = await starting
        process.kill()
        await (talking or loop.run_in_executor(None, process.communicate))
        raise
    if process.returncode:
        lines = error.strip().splitlines()
        raise ChildFailed(lines[-1] if lines else f"ended with code {process.returncode}")
    return out


def _start(command: Sequence[str]) -> Popen[str]:
    return Popen(
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        close_fds=False,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
