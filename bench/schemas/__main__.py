"""`python -m bench.schemas`: what a registry answers in a second, and what serializers cost, in one run.

The registry is a process of its own beside a broker of its own; clients are connections that each wait
for their answer. Encoding and decoding is of one record of ten fields: fastavro alone, confluent-
kafka's serializers with the registry, and headwater's own (`columns`), alone and through Spark's source.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import fastavro
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.broker import machine
from bench.schemas import columns
from headwater.testing import broker

RESULTS = Path(__file__).parents[1] / "results"
TEN = {
    "type": "record",
    "name": "Ten",
    "fields": [{"name": f"f{n}", "type": ("long", "string", "double")[n % 3]} for n in range(10)],
}
ROW = {f"f{n}": (n, f"text {n}", n / 3)[n % 3] for n in range(10)}


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    words.add_argument("--seconds", type=float, default=5.0, help="of each kind of request")
    words.add_argument("--clients", type=int, default=16)
    words.add_argument("--rows", type=int, default=50_000, help="to encode and to decode")
    words.add_argument("--spark-rows", type=int, default=1_000_000, help="through Spark; 0: none")
    words.add_argument("--json", type=Path, default=RESULTS / "last-schemas.json", metavar="FILE")
    chosen = words.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-schemas-") as folder:
        about = machine.describe(Path(folder))
        with broker(folder) as kafka:
            process, port = _started(kafka.bootstrap)
            try:
                for name, request in _requests().items():
                    found[name] = asyncio.run(_asked(port, request, chosen.clients, chosen.seconds))
                    _show(name, found[name])
                rates = _encoded(port, chosen.rows) | columns.alone(port, chosen.rows)
                if chosen.spark_rows:
                    rates |= columns.through_spark(kafka.bootstrap, port, chosen.spark_rows)
                for name, rate in rates.items():
                    found[name] = {"per_s": rate}
                    _show(name, found[name])
            finally:
                process.terminate()
                process.wait()
    load = os.getloadavg()[0]
    chosen.json.write_text(json.dumps({"machine": about, "load": load, "results": found}, indent=2))
    print(f"load {load:.1f}; {chosen.json}")
    return 0


def _started(bootstrap: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "headwater", "schemas", "serve", "--bootstrap", bootstrap]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, cwd="/"
    )
    assert process.stderr is not None
    found = re.search(r":(\d+)/?$", process.stderr.readline().strip())
    assert found is not None
    return process, int(found[1])


def _requests() -> dict[str, Callable[[int], bytes]]:
    def post(path: str, text: str) -> bytes:
        body = json.dumps({"schema": text}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def fixed(number: int) -> str:
        return json.dumps({"type": "fixed", "name": "f", "size": number + 1})

    known = post("/subjects/ten-value/versions", json.dumps(TEN))
    path = "/compatibility/subjects/ten-value/versions/latest"
    return {
        "register a schema that is there": lambda _: known,
        "schema by id": lambda _: b"GET /schemas/ids/1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "compare with the latest": lambda _: post(path, json.dumps(TEN)),
        "register a new schema": lambda n: post(f"/subjects/s{n}/versions", fixed(n)),
    }


async def _asked(
    port: int, request: Callable[[int], bytes], clients: int, seconds: float
) -> dict[str, float]:
    took: list[float] = []
    numbers = iter(range(10**9))
    until = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(request(next(numbers)))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert head.startswith(b"HTTP/1.1 200") and length is not None, head
            await reader.readexactly(int(length[1]))
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    took.sort()
    return {
        "per_s": len(took) / seconds,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[int(len(took) * 0.99)] * 1000,
    }


def _encoded(port: int, rows: int) -> dict[str, float]:
    schema = fastavro.parse_schema(TEN)
    field = SerializationContext("ten", MessageField.VALUE)
    with SchemaRegistryClient({"url": f"http://127.0.0.1:{port}"}) as client:
        serialize, deserialize = AvroSerializer(client, json.dumps(TEN)), AvroDeserializer(client)
        data = serialize(ROW, field)
        assert data is not None and deserialize(data, field) == ROW

        def write() -> None:
            fastavro.schemaless_writer(io.BytesIO(), schema, ROW)

        return {
            "encode: fastavro": _rate(write, rows),
            "encode: confluent-kafka": _rate(lambda: serialize(ROW, field), rows),
            "decode: fastavro": _rate(
                lambda: fastavro.schemaless_reader(io.BytesIO(data[5:]), schema), rows
            ),
            "decode: confluent-kafka": _rate(lambda: deserialize(data, field), rows),
        }


def _rate(work: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        work()
    return count / (time.perf_counter() - began)


def _show(name: str, figures: dict[str, float]) -> None:
    times = "".join(f"  {key} {value:8.2f}" for key, value in figures.items() if key != "per_s")
    print(f"{name:36} {figures['per_s']:10,.0f}/s{times}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
