"""How long it takes to build a view of millions of changes anew: `headwater rebuild`, from start to switch.

A topic gets changes of a table: each key is inserted, then updated several times, and some are deleted. The
view is first brought up to date by `headwater run --once`, so that there is one that serves.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import confluent_kafka

from bench.broker import wire
from bench.broker.contestants import HEADWATER_OS, running
from bench.broker.meter import cpu_s
from bench.spark.results import Results
from bench.spark.session import REPOSITORY

TOPIC, PARTITIONS, PER_KEY = "changes", 4, 5
LOOK_S = 0.1
_PIPELINE = """
import headwater as hw

SCHEMA = "id BIGINT, customer STRING, item STRING, total DOUBLE"


@hw.view("{view}", key="id", to="memory:")
def orders():
    changes = hw.table("changes", schema=SCHEMA, key="id", options={options!r})
    return changes.select("id", "customer", "item", "total"{marks})
"""
WAYS = {"": ', "_deleted"', ", of the table as it is": ""}
"""The table's changes one by one, each marked whether it deletes; and as most views are written."""


def measure(results: Results, home: Path, changes: int, stores: dict[str, str], batch: int) -> None:
    options = {"maxOffsetsPerTrigger": str(batch)}
    with running((HEADWATER_OS,), home / "rebuild") as (broker,):
        with wire.Connection(broker.bootstrap) as connection:
            wire.create_topic(connection, TOPIC, PARTITIONS)
        _fill(broker.bootstrap, changes)
        for number, (name, way) in enumerate(product(stores, WAYS)):
            file = home / f"pipelines{number}.py"
            text = _PIPELINE.replace("{marks}", WAYS[way]).replace("{options!r}", repr(options))
            view = f"orders{number}"
            file.write_text(text.replace("{view}", view), encoding="utf-8")
            said = ["--to", f"{view}={stores[name]}", "--bootstrap", broker.bootstrap]
            said += ["--master", "local[2]", "--checkpoints", str(home / f"checkpoints{number}")]
            for label, command in (
                ("first build (run --once)", ["run", str(file), "--once"]),
                ("headwater rebuild", ["rebuild", view, str(file)]),
            ):
                seconds, spent = _run([*command, *said], home)
                figures = {"per_s": changes / seconds, "seconds": seconds, "cpu_s": spent}
                results.add(f"rebuild of {changes:,} changes, {name}{way}", label, figures)


def _run(words: list[str], home: Path) -> tuple[float, float]:
    """Seconds, and those of CPU of the command with its Java and its workers, as last seen."""
    begin, spent = time.perf_counter(), 0.0
    output = home / "output"
    with output.open("wb") as said:
        done = subprocess.Popen(
            [sys.executable, "-m", "headwater", *words],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    while done.poll() is None:
        with suppress(FileNotFoundError):
            spent = max(spent, cpu_s(done.pid))
        with suppress(subprocess.TimeoutExpired):
            done.wait(LOOK_S)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise RuntimeError(f"headwater {words[0]} failed: {output.read_text()[-2000:]}")
    return seconds, spent


def _fill(bootstrap: str, changes: int) -> None:
    """Debezium's envelope would be longer; plain rows, and a record without a value deletes."""
    keys, chance = max(1, changes // PER_KEY), random.Random(7)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
        }
    )
    for number in range(changes):
        key = number if number < keys else chance.randrange(keys)
        value = None
        if number < keys or chance.random() > 0.05:
            row = {"id": key, "customer": f"customer {key % 9973}", "item": f"item {number}"}
            value = json.dumps({**row, "total": number / 100})
        while True:
            try:
                producer.produce(TOPIC, value, json.dumps({"id": key}))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
