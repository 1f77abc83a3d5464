"""`python -m bench.capture`: headwater and Debezium on one PostgreSQL, to one broker, in one run.

For each: a snapshot, single-row transactions that wait in the server's log, one large transaction, and
latency at 200 commits/s. Debezium runs with its default poll interval and with 5 ms. Rates are from the
first record that a reader sees to the last; CPU seconds are of the whole process since its start, so
Debezium's are cold where the run is short.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import psycopg

from bench.capture import workload
from bench.capture.contestants import Contestant
from bench.capture.measure import Figures, Reader, follow, latency
from headwater import testing
from tests.capture.postgres.server import PostgresServer, postgres

KINDS = ("headwater", "debezium", "debezium 5 ms")


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m bench.capture", description=__doc__)
    words.add_argument("--rows", type=int, default=1_000_000, help="rows of the snapshot")
    words.add_argument("--single", type=int, default=200_000, help="single-row transactions")
    words.add_argument("--bulk", type=int, default=500_000, help="rows of the one transaction")
    words.add_argument("--latency", type=int, default=2_000, help="commits of the latency run")
    words.add_argument("--only", choices=KINDS, action="append", help="leave the others out")
    chosen = words.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    settings = {"logical_decoding_work_mem": "64MB", "shared_buffers": "256MB", "fsync": "on"}
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
        postgres(settings) as server,
        testing.broker(settings={"num.partitions": "4"}) as log,
    ):
        found = {
            kind: contest(kind, f"shop{number}", server, log.bootstrap, Path(folder), chosen)
            for number, kind in enumerate(chosen.only or KINDS)
        }
    ratios(found)
    print(f"load after: {os.getloadavg()[0]:.1f}")


def contest(
    kind: str,
    database: str,
    server: PostgresServer,
    bootstrap: str,
    folder: Path,
    chosen: argparse.Namespace,
) -> dict[str, Figures]:
    workload.create(server, database, chosen.rows)
    contestant = Contestant(kind, server, database, bootstrap, folder)
    reader = Reader(bootstrap, contestant.topic)
    known: set[int] = set()
    found: dict[str, Figures] = {}
    with contestant.running() as process:
        found["snapshot"] = follow(process, reader, chosen.rows, contestant, known)
        show(kind, "snapshot", found["snapshot"])
    at = chosen.rows + 1
    workload.single(server, database, at, chosen.single)
    with contestant.running() as process:
        found["single rows"] = follow(process, reader, chosen.single, contestant, known)
        show(kind, "single rows", found["single rows"])
    at += chosen.single
    workload.bulk(server, database, at, chosen.bulk)
    with contestant.running() as process:
        found["one transaction"] = follow(process, reader, chosen.bulk, contestant, known)
        show(kind, "one transaction", found["one transaction"])
        with psycopg.connect(server.url(database), autocommit=True) as connection:

            def insert(number: int) -> None:
                connection.execute("INSERT INTO orders VALUES (%s, 'x')", [number])

            middle, late = latency(contestant, reader, insert, chosen.latency)
    print(f"{kind:<14} {'200 commits/s':<16} p50 {middle:.1f} ms, p99 {late:.1f} ms", flush=True)
    reader.close()
    return found


def show(kind: str, what: str, figures: Figures) -> None:
    print(f"{kind:<14} {what:<16} {figures.line()}", flush=True)


def ratios(found: dict[str, dict[str, Figures]]) -> None:
    """headwater's figure by Debezium's; the targets are 3 or more, and a fifth or less."""
    ours = found.get("headwater")
    for kind, theirs in found.items():
        if ours is None or kind == "headwater":
            continue
        for what, other in theirs.items():
            own = ours[what]
            rate = (own.rows / own.seconds) / (other.rows / other.seconds)
            per_cpu = (own.rows / own.cpu_seconds) / (other.rows / other.cpu_seconds)
            print(
                f"headwater : {kind:<14} {what:<16} rows/s {rate:4.1f}, rows per CPU second "
                f"{per_cpu:4.1f} (target 3), memory {own.peak_mb / other.peak_mb:4.2f} (target 0.2)"
            )


if __name__ == "__main__":
    main()
