"""Pathway, timed: run by the interpreter that has it, with nothing of headwater's.

    python pathway_peer.py OPERATOR BOOTSTRAP STEM ROWS FOLDER

Prints a line of JSON. It reads what the topics hold and ends; its start, a second or two, is in the time.
Its state is in memory (keeping it on disk is possible, and is not asked for here). Two threads, as the
machine has two cores. Pathway is under the Business Source License 1.1; what is used here needs no key.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

os.environ["PATHWAY_THREADS"] = "2"

WINDOW_MS, GAP_MS, RANGE_MS, LATENESS_MS = 10_000, 2_000, 1_000, 1_000


def main() -> None:
    operator, bootstrap, stem, rows, _ = sys.argv[1:6]
    import pathway as pw

    class Row(pw.Schema):  # type: ignore[misc,unused-ignore]
        k: str
        x: int
        ms: int

    def table(name: str) -> pw.Table:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"pathway-{operator}-{name}-{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
        return pw.io.kafka.read(settings, name, schema=Row, format="json", mode="static")

    if operator in ("windows", "sessions"):
        events = table(stem)
        if operator == "windows":
            window = pw.temporal.tumbling(duration=WINDOW_MS)
            behavior = pw.temporal.exactly_once_behavior(shift=LATENESS_MS)
        else:
            window, behavior = pw.temporal.session(max_gap=GAP_MS), None
        grouped = events.windowby(events.ms, window=window, instance=events.k, behavior=behavior)
        found = grouped.reduce(
            k=pw.this._pw_instance, n=pw.reducers.count(), total=pw.reducers.sum(pw.this.x)
        )
    else:
        left, right = table(f"{stem}-left"), table(f"{stem}-right")
        found = left.interval_join(
            right, left.ms, right.ms, pw.temporal.interval(0, RANGE_MS), left.k == right.k
        ).select(k=left.k, x=left.x, y=right.x)
    pw.io.null.write(found)
    begin = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.perf_counter() - begin
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        json.dumps(
            {
                "rows": int(rows),
                "per_s": int(rows) / seconds,
                "state_mb": resident,
                "resident_mb": resident,
            }
        )
    )


if __name__ == "__main__":
    main()
