"""A driver as a process of its own, to be killed: `python -m tests.views.embedded.writing TO BATCHES`.

What a batch holds follows from its number, so that whoever reads the view knows what must be there. It
prints a line before and after each commit.
"""

from __future__ import annotations

import random
import sys

from headwater.testing.targets import Row, Writer, shape
from headwater.views.targets.registry import target_for

KEYS = 600


def changes(batch: int) -> list[Row]:
    """Of one batch: rows, and keys that are deleted."""
    chance = random.Random(batch)
    keys = chance.sample(range(KEYS), 300)
    return [
        (key, None, None, True) if chance.random() < 0.3 else (key, f"{key} in {batch}", 0.5, False)
        for key in keys
    ]


def rows_after(batch: int) -> list[Row]:
    """What the view holds when it has this batch and all before it."""
    found: dict[object, Row] = {}
    for each in range(batch + 1):
        for row in changes(each):
            if row[3]:
                found.pop(row[0], None)
            else:
                found[row[0]] = row[:3]
    return sorted(found.values(), key=repr)


def main() -> None:
    to, batches = sys.argv[1], int(sys.argv[2])
    writer = Writer(target_for(to, shape()))
    known = writer.target.applied()
    # As Spark does it: the last batch may come again.
    for batch in range(max(0, known.batch) if known else 0, batches):
        rows = changes(batch)
        parts = [writer.stage(batch, 0, rows[::2]), writer.stage(batch, 1, rows[1::2])]
        print(f"commit {batch}", flush=True)
        writer.commit(batch, parts)
        print(f"done {batch}", flush=True)


if __name__ == "__main__":
    main()
