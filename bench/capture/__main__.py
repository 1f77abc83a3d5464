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
        for number, kind in enumerate(chosen.only or KINDS):
            contest(kind, f"shop{number}", server, log.bootstrap, Path(folder), chosen)


def contest(
    kind: str,
    database: str,
    server: PostgresServer,
    bootstrap: str,
    folder: Path,
    chosen: argparse.Namespace,
) -> None:
    workload.create(server, database, chosen.rows)
    contestant = Contestant(kind, server, database, bootstrap, folder)
    reader = Reader(bootstrap, contestant.topic)
    known: set[int] = set()
    with contestant.running() as process:
        show(kind, "snapshot", follow(process, reader, chosen.rows, contestant, known))
    at = chosen.rows + 1
    workload.single(server, database, at, chosen.single)
    with contestant.running() as process:
        show(kind, "single rows", follow(process, reader, chosen.single, contestant, known))
    at += chosen.single
    workload.bulk(server, database, at, chosen.bulk)
    with contestant.running() as process:
        show(kind, "one transaction", follow(process, reader, chosen.bulk, contestant, known))
        with psycopg.connect(server.url(database), autocommit=True) as connection:

            def insert(number: int) -> None:
                connection.execute("INSERT INTO orders VALUES (%s, 'x')", [number])

            middle, late = latency(contestant, reader, insert, chosen.latency)
    print(f"{kind:<14} {'200 commits/s':<16} p50 {middle:.1f} ms, p99 {late:.1f} ms", flush=True)
    reader.close()


def show(kind: str, what: str, figures: Figures) -> None:
    print(f"{kind:<14} {what:<16} {figures.line()}", flush=True)


if __name__ == "__main__":
    main()
