"""How long until the first rows are there: a new process with a new session, a small topic.

    python -m bench.spark.first SOURCE BOOTSTRAP TOPIC

prints, as JSON: seconds for the first query, for a second one, and for the first batch of a stream.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time

from bench.spark.results import CONNECTOR, NETWORK_KAFKA, Results
from bench.spark.session import REPOSITORY, load, session


def measure(results: Results, bootstrap: str, topic: str, rounds: int) -> None:
    for _ in range(rounds):
        for source, name in (("headwater", NETWORK_KAFKA), ("kafka", CONNECTOR)):
            done = subprocess.run(
                [sys.executable, "-m", "bench.spark.first", source, bootstrap, topic],
                capture_output=True,
                text=True,
                cwd=REPOSITORY,
                timeout=300,
            )
            if done.returncode:
                raise RuntimeError(done.stderr[-2000:])
            found = json.loads(done.stdout.splitlines()[-1])
            print(f"  first rows, {name}: {found}", flush=True)
            results.add("first rows", name, found)


def _one(source: str, bootstrap: str, topic: str) -> dict[str, float]:
    spark = session()
    found: dict[str, float] = {}
    for name in ("first_query_s", "second_query_s"):
        began = time.perf_counter()
        options = {"files": "false"} if source == "headwater" else {}
        assert load(spark, source, bootstrap, topic, **options).count() > 0
        found[name] = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        rows = (
            spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        query = rows.writeStream.format("noop").option("checkpointLocation", folder).start()
        while not (query.lastProgress and query.lastProgress["numInputRows"]):
            time.sleep(0.01)  # between two looks; there is nothing to wait on
        found["first_batch_s"] = time.perf_counter() - began
        query.stop()
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(_one(*sys.argv[1:4])))
