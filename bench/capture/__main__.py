"""`python -m bench.capture`: headwater and Debezium on one server, to one broker, in one run.

On PostgreSQL, MariaDB and MySQL, and headwater alone on MongoDB, for each: a snapshot by a process that has
just begun; single-row transactions while it goes on (Debezium is warm then); single-row transactions that
waited in the server's log for a process that has just begun; one large transaction; latency at 200
commits/s. Debezium runs with its default poll interval, and for latency also with 5 ms. All write with
acknowledgements.

Rates are from the first record that a reader sees to the last (where rows are written meanwhile: from
their first commit on); CPU seconds are of the process, since its start or over that time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.capture.contestants import Contestant
from bench.capture.databases import Database, database
from bench.capture.measure import Figures, Reader, follow, latency

KINDS = ("headwater", "debezium", "debezium 5 ms")
DATABASES = ("postgresql", "mariadb", "mysql", "mongodb")
SIZES = {
    "rows": (1_000_000, 50_000, "rows of the snapshot"),
    "warm": (600_000, 10_000, "single rows while it runs"),
    "single": (200_000, 10_000, "single rows that waited"),
    "bulk": (500_000, 20_000, "rows of the one transaction"),
    "latency": (2_000, 400, "commits of the latency run"),
}
"""As they are, as they are with `--quick`, and what they are."""
RESULTS = Path(__file__).parents[1] / "results" / "capture.json"


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m bench.capture", description=__doc__)
    for name, (whole, _, meaning) in SIZES.items():
        words.add_argument(f"--{name}", type=int, help=f"{meaning}; {whole} unless told")
    words.add_argument("--quick", action="store_true", help="few rows: does it run?")
    words.add_argument("--only", choices=KINDS, action="append", help="leave the others out")
    words.add_argument("--on", choices=DATABASES, action="append")
    words.add_argument("--save", action="store_true", help=f"into bench/results/{RESULTS.name}")
    chosen = words.parse_args()
    for name, (whole, few, _) in SIZES.items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, few if chosen.quick else whole)
    found: dict[str, Any] = {}
    for name in chosen.on or DATABASES:
        print(f"{name}; load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        load = os.getloadavg()[0]
        with (
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
            database(name) as server,
            broker(Path(folder)) as bootstrap,
        ):
            kinds = {
                kind: contest(kind, f"shop{n}", server, bootstrap, Path(folder), chosen)
                for n, kind in enumerate(chosen.only or KINDS)
                if server.peer or kind == "headwater"
            }
        ratios(kinds)
        found[name] = {
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "load_before": round(load, 2),
            "sizes": {name: getattr(chosen, name) for name in SIZES},
            **{k: {w: f.as_json() for w, f in v.items()} for k, v in kinds.items()},
        }
    if chosen.save:
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**before, **found}, indent=1) + "\n")


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """headwater's, in a process of its own: what measures must not slow it down."""
    program = Path(sys.executable).parent / "headwater"
    words = [str(program), "broker", "--data", str(folder / "log"), "--listen", "127.0.0.1:0"]
    # A reader must be there when the first record is: groups begin at once.
    for setting in ("num.partitions=4", "group.initial.rebalance.delay.ms=0"):
        words += ["--set", setting]
    with (folder / "broker.log").open("ab") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None, (folder / "broker.log").read_text()[-2000:]
        yield found[0]
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def contest(
    kind: str,
    name: str,
    server: Database,
    bootstrap: str,
    folder: Path,
    chosen: argparse.Namespace,
) -> dict[str, Figures]:
    only_latency = kind == "debezium 5 ms"
    rows = 1_000 if only_latency else chosen.rows
    server.create(name, rows)
    contestant = Contestant(kind, server, name, bootstrap, folder)
    reader = Reader(bootstrap, contestant.topic)
    known: set[int] = set()
    found: dict[str, Figures] = {}
    at = rows + 1

    def take(what: str, figures: Figures) -> None:
        found[what] = figures
        print(f"{kind:<14} {what:<18} {figures.line()}", flush=True)

    with contestant.running() as process:
        take("snapshot", follow(process, reader, rows, contestant, known))
        if not only_latency:
            write = partial(server.single, name, at, chosen.warm)
            take("single, running", follow(process, reader, chosen.warm, contestant, known, write))
            at += chosen.warm
        if only_latency:
            take("200 commits/s", _latency(contestant, server, reader, chosen.latency))
    if only_latency:
        reader.close()
        return found
    server.single(name, at, chosen.single)
    with contestant.running() as process:
        take("single, waited", follow(process, reader, chosen.single, contestant, known))
        at += chosen.single
        write = partial(server.bulk, name, at, chosen.bulk)
        take("one transaction", follow(process, reader, chosen.bulk, contestant, known, write))
        take("200 commits/s", _latency(contestant, server, reader, chosen.latency))
    reader.close()
    return found


def _latency(contestant: Contestant, server: Database, reader: Reader, count: int) -> Figures:
    with server.inserting(contestant.database) as insert:
        return latency(contestant, reader, insert, count)


def ratios(found: dict[str, dict[str, Figures]]) -> None:
    """headwater's figure by Debezium's; the targets are 3 or more, and a fifth or less."""
    ours = found.get("headwater")
    for kind, theirs in found.items():
        if ours is None or kind == "headwater":
            continue
        for what, other in theirs.items():
            own = ours[what]
            if other.p50_ms or kind == "debezium 5 ms":
                continue
            rate = (own.rows / own.seconds) / (other.rows / other.seconds)
            per_cpu = (own.rows / own.cpu_seconds) / (other.rows / other.cpu_seconds)
            print(
                f"headwater : {kind:<14} {what:<18} rows/s {rate:4.1f}, rows per CPU second "
                f"{per_cpu:4.1f} (target 3), memory {own.peak_mb / other.peak_mb:4.2f} (target 0.2)"
            )


if __name__ == "__main__":
    main()
