"""A kill at the worst moment, without a process to kill; and Spark at its plainest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.testing.rehearsal import Rehearsal


def forget_the_last_commit(rehearsal: Rehearsal, view: str) -> None:
    """Stop a view as a kill between its target and its checkpoint leaves it: the batch comes again."""
    rehearsal.stop(view)
    commits = (rehearsal.folder / "checkpoints" / view / "commits").glob("[0-9]*")
    last = max(commits, key=lambda path: int(path.name))
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    last.unlink()


@contextmanager
def one_partition(rehearsal: Rehearsal) -> Iterator[None]:
    """A single task for each step of a query: a state store and a Python process less for each."""
    name = "spark.sql.shuffle.partitions"
    before = rehearsal.spark.conf.get(name)
    rehearsal.spark.conf.set(name, "1")
    try:
        yield
    finally:
        assert before is not None
        rehearsal.spark.conf.set(name, before)
