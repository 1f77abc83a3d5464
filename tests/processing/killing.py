"""A kill at the worst moment, without a process to kill."""

from __future__ import annotations

from headwater.testing.rehearsal import Rehearsal


def forget_the_last_commit(rehearsal: Rehearsal, view: str) -> None:
    """Stop a view as a kill between its target and its checkpoint leaves it: the batch comes again."""
    rehearsal.stop(view)
    commits = (rehearsal.folder / "checkpoints" / view / "commits").glob("[0-9]*")
    last = max(commits, key=lambda path: int(path.name))
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    last.unlink()
