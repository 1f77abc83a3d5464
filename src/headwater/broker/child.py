"""Work in a process of its own, so that nobody waits for it: compaction and excision.

What it has to do goes in as JSON, what came of it comes out as JSON. It ends with the broker's task.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Sequence


class ChildFailed(OSError):
    """The process ended with an error; its last line says why."""


async def run_child(command: Sequence[str], given: str) -> str:
    """What the command prints, given this on its standard input. Raises ChildFailed."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        out, error = await process.communicate(given.encode())
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        lines = error.decode("utf-8", "replace").strip().splitlines()
        raise ChildFailed(lines[-1] if lines else f"ended with code {process.returncode}")
    return out.decode()
