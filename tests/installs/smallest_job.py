"""The smallest job of each extra, run by the Python of an environment that has nothing else: `… EXTRA`.

Standard library and headwater alone: there is no pytest here. Whatever goes wrong is an exception.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from headwater.oidc.errors import TokenRefused

PATIENCE_S = 120.0


def core() -> None:
    """A record goes in by one command and comes out by another."""
    with log() as address:
        command(address, "topics", "create", "orders")
        command(address, "produce", "orders", given="1\n")
        assert "1" in command(address, "tail", "orders", "--no-follow")


def events() -> None:
    """A command becomes an event, and the event a state."""
    from headwater.events import Accepted, Aggregate, Running

    counter = Aggregate(
        "counters", 0, lambda state, c: [Added()], lambda s, e: s + 1, [Add], [Added]
    )
    with log() as address, Running(counter, address, owns="all", partitions=1) as running:
        assert isinstance(running.send("a", Add()), Accepted)
        assert running.state("a") == 1


@dataclass(frozen=True)
class Add:
    pass


@dataclass(frozen=True)
class Added:
    pass


def edges() -> None:
    """A record comes in by HTTP."""
    with log() as address, served("edges", address, "/topics/orders") as url:
        command(address, "topics", "create", "orders")
        body = Request(f"{url}/topics/orders", b'{"a": 1}', {"Content-Type": "application/json"})
        with urlopen(body, timeout=30) as answer:
            assert answer.status in (200, 201, 202), answer.status
        assert '"a"' in command(address, "tail", "orders", "--no-follow")


def schemas() -> None:
    """A schema of each type gets an id."""
    texts = {
        "AVRO": r"\"string\"",
        "JSON": r"{\"type\": \"object\"}",
        "PROTOBUF": r"syntax = \"proto3\"; message M { int32 a = 1; }",
    }
    with log() as address, served("schemas serve", address, "/healthz") as url:
        for number, (kind, text) in enumerate(texts.items(), 1):
            body = f'{{"schemaType": "{kind}", "schema": "{text}"}}'.encode()
            with urlopen(Request(f"{url}/subjects/{kind}/versions", body), timeout=30) as answer:
                assert f'"id":{number}' in answer.read().decode()


def console() -> None:
    """The page is there."""
    with log() as address, served("console", address, "/") as url, urlopen(url, timeout=30) as page:
        assert b"headwater" in page.read().lower()


def spark() -> None:
    """A query reads a topic."""
    from headwater.pipelines.session import session

    with log() as address:
        command(address, "topics", "create", "orders")
        command(address, "produce", "orders", given="1\n2\n")
        made = session("local[1]")
        options = {"kafka.bootstrap.servers": address, "subscribe": "orders"}
        assert made.read.format("headwater").options(**options).load().count() == 2
        made.stop()


def connect() -> None:
    """A plan goes to a Spark Connect server, which this process starts."""
    from pyspark.sql import SparkSession

    made = SparkSession.builder.remote("local[1]").getOrCreate()
    assert made.range(3).count() == 3
    made.stop()


def capture_of(address: str) -> Callable[[], None]:
    """The driver is there, and says that nobody answers."""

    def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "headwater.toml").write_text(f'[capture.shop]\nfrom = "{address}"\n')
            words = [sys.executable, "-m", "headwater", "capture", "check", "shop"]
            ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            said = ran.stdout + ran.stderr
            assert ran.returncode != 0, said
            assert "pip install" not in said and "Traceback" not in said, said
            assert "127.0.0.1" in said, said

    return check


def avro() -> None:
    """A row becomes an Avro record."""
    from headwater.capture.avro import AvroEncoder
    from headwater.capture.envelope import Column

    source = {"type": "struct", "name": "Source", "optional": False, "fields": []}
    columns = [Column("id", (("type", "int32"),), False)]
    made = AvroEncoder("shop.orders", columns, [0], source)
    assert list(made.schema_records("shop.avro-schemas"))


def view_in(address: str) -> Callable[[], None]:
    """A view writes rows and reads them again."""

    def write() -> None:
        import pyarrow as pa

        from headwater.client.position import Position
        from headwater.views.targets.contract import DELETED, Applied, Kind, Shape
        from headwater.views.targets.registry import target_for

        rows = {"id": pa.array([1], pa.int64()), "name": pa.array(["a"])}
        schema = pa.table(rows).schema
        shape = Shape(view="customers", schema=schema, key=("id",), kind=Kind.UPSERT, version=1)
        with tempfile.TemporaryDirectory() as folder:
            target = target_for(address.format(folder=folder), shape)
            target.create()
            epoch = target.claim()
            batch = pa.RecordBatch.from_pydict({**rows, DELETED: pa.array([False])})
            part = target.stage(0, 0, iter([batch]))
            target.commit(Applied(0, epoch, Position({"customers": {0: 1}})), [part])
            with target.reading(None) as (_, batches):
                assert [row["id"] for each in batches for row in each.to_pylist()] == [1]

    return write


def redis() -> None:
    """The target is there, and says that nobody answers."""
    from headwater.errors import HeadwaterError

    said = ""
    try:
        view_in("redis://127.0.0.1:1/0")()
    except HeadwaterError as error:
        said = f"{error} {error.hint}"
    assert said and "pip install" not in said, said


# ---- what they need ---------------------------------------------------------------------------------


@contextmanager
def log() -> Iterator[str]:
    from headwater.testing import broker

    with broker() as running:
        yield running.bootstrap


def command(address: str, *words: str, given: str = "") -> str:
    """What a command prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "headwater", *words, "--bootstrap", address],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def served(part: str, address: str, path: str) -> Iterator[str]:
    """A part that serves HTTP, as a process; its address once it answers."""
    from headwater.project.ports import free_port

    listen = f"127.0.0.1:{free_port()}"
    words = [sys.executable, "-m", "headwater", *part.split(), "--listen", listen]
    words += ["--bootstrap", address]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(words, cwd=folder, env={**os.environ, "HOME": folder})
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not answers(f"http://{listen}{path}"):
                assert process.poll() is None, f"{part} has ended"
                assert time.monotonic() < deadline, f"{part} does not answer"
                time.sleep(0.1)
            yield f"http://{listen}"
        finally:
            process.terminate()
            process.wait(60)


def answers(url: str) -> bool:
    """Whether there is somebody, whatever they say."""
    from urllib.error import HTTPError

    try:
        with urlopen(url, timeout=5):
            return True
    except HTTPError:
        return True
    except OSError:
        return False


def oidc() -> None:
    """A broker that takes tokens starts, and finds that this is none."""
    from headwater.broker.broker import Broker

    settings: dict[str, object] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": "https://issuer.example",
        "sasl.oauthbearer.expected.audience": "log",
    }
    with tempfile.TemporaryDirectory() as folder:
        policy = Broker(folder, None, settings).socket_server.listeners[0].policy
    assert policy is not None and policy.bearers is not None
    try:
        asyncio.run(policy.bearers.identity("no.token.atall"))
    except TokenRefused:
        return
    raise AssertionError("it took anything for a token")


JOBS: dict[str, Callable[[], None]] = {
    "": core,
    "spark": spark,
    "connect": connect,
    "postgres": capture_of("postgresql://nobody@127.0.0.1:1/shop"),
    "mysql": capture_of("mysql://nobody@127.0.0.1:1/shop"),
    "mongodb": capture_of("mongodb://127.0.0.1:1/shop?serverSelectionTimeoutMS=500"),
    "avro": avro,
    "search": view_in("search:{folder}/index"),
    "redis": redis,
    "warehouse": view_in("duckdb:{folder}/view.duckdb"),
    "events": events,
    "edges": edges,
    "console": console,
    "schemas": schemas,
    "oidc": oidc,
}

if __name__ == "__main__":
    JOBS[sys.argv[1]]()
    print("done")
