"""Quix Streams, timed: run by the interpreter that has it, with nothing of headwater's.

    python quix_peer.py OPERATOR BOOTSTRAP STEM ROWS FOLDER

Prints a line of JSON. One process, as one would start it; its state is in RocksDB, with a changelog topic.
The first tenth of the rows does not count.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

WINDOW_S, GAP_S, RANGE_S = 10, 2, 1


def main() -> None:
    operator, bootstrap, stem, rows, folder = sys.argv[1:6]
    from quixstreams import Application
    from quixstreams.dataframe.windows import Count, Sum

    app = Application(
        broker_address=bootstrap,
        consumer_group=f"quix-{operator}-{stem}-{time.time_ns()}",
        auto_offset_reset="earliest",
        state_dir=folder,
        loglevel="ERROR",
    )
    total, seen, began = int(rows), [0], [0.0, 0.0]

    def note(value: object) -> None:
        seen[0] += 1
        if seen[0] == total // 10:
            began[0] = time.perf_counter()
        elif seen[0] == total:
            began[1] = time.perf_counter()
            app.stop()

    def frame(name: str) -> Any:
        return app.dataframe(app.topic(name, value_deserializer="json")).update(note)

    if operator in ("windows", "sessions"):
        sdf = frame(stem)
        if operator == "windows":
            window = sdf.tumbling_window(timedelta(seconds=WINDOW_S), grace_ms=timedelta(seconds=1))
        else:
            window = sdf.session_window(timedelta(seconds=GAP_S), grace_ms=timedelta(seconds=1))
        window.agg(n=Count(), total=Sum("x")).final()
    elif operator == "join":
        left, right = frame(f"{stem}-left"), frame(f"{stem}-right")
        left.join_interval(
            right,
            how="inner",
            on_merge=lambda one, other: {**one, "y": other["x"]},
            backward_ms=0,
            forward_ms=timedelta(seconds=RANGE_S),
            grace_ms=timedelta(seconds=2 * RANGE_S),
        )
    elif operator == "as-of":
        left, right = frame(f"{stem}-left"), frame(f"{stem}-right")
        left.join_asof(
            right, how="left", on_merge=lambda one, other: {"y": one["x"], **(other or {})}
        )
    app.run(timeout=20.0, collect=False)
    done = began[1] > 0
    print(
        json.dumps(
            {
                "rows": seen[0],
                "per_s": (total - total // 10) / (began[1] - began[0]) if done else 0.0,
                "state_mb": size(Path(folder)) / 1e6,
                "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            }
        )
    )


def size(folder: Path) -> int:
    return sum(os.path.getsize(path) for path in folder.rglob("*") if path.is_file())  # noqa: PTH202


if __name__ == "__main__":
    main()
