"""What decoding by a registry costs: a column of values to Arrow, and a whole topic through Spark's source.

The record has ten columns (long, text, double, boolean, a decimal, a timestamp, a date, an enum, a nullable
text and int). Rates of decoding alone are per second of CPU; through Spark they are by the clock, with
`local[2]`, and per second of CPU of all its processes; every column is looked at. Beside them Spark's own
`from_avro`, on the bytes that our source hands it (its jar is Spark 4.1.1's, the latest that Maven has here;
of spark-protobuf it has none).
"""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import fastavro
import pyarrow as pa
from confluent_kafka import Producer

from bench.schemas.processes import cpu_seconds
from headwater.client.log import Log
from headwater.pipelines import maven
from headwater.pipelines.session import session
from headwater.schemas.client import RegistryClient
from headwater.schemas.lookup import RegistryLookup
from headwater.schemas.model import PROTOBUF, Schema
from headwater.schemas.values.codecs import Codecs
from headwater.schemas.values.protobuf import ProtobufCodec
from headwater.spark.source.values import avro as avro_types
from headwater.spark.source.values.avro_columns import plan
from headwater.spark.source.values.protobuf_columns import plan as protobuf_plan

TOPIC = "ten-columns"
SPARK_AVRO = ("org.apache.spark", "spark-avro_2.13", "4.1.1")
AVRO = {"type": "record", "name": "Ten", "fields": [
    {"name": "id", "type": "long"}, {"name": "customer", "type": "string"},
    {"name": "quantity", "type": "int"}, {"name": "price", "type": "double"},
    {"name": "paid", "type": "boolean"}, {"name": "note", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal",
                               "precision": 12, "scale": 2}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["new", "sent"]}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}}]}  # fmt: skip
ARROW = pa.struct(
    [("id", pa.int64()), ("customer", pa.string()), ("quantity", pa.int32()),
     ("price", pa.float64()), ("paid", pa.bool_()), ("note", pa.string()),
     ("at", pa.timestamp("us", "UTC")), ("total", pa.decimal128(12, 2)),
     ("state", pa.string()), ("day", pa.date32())]
)  # fmt: skip
PROTO = """syntax = "proto3";
message Ten { int64 id = 1; string customer = 2; int32 quantity = 3; double price = 4; bool paid = 5;
  optional string note = 6; int64 at = 7; string total = 8; string state = 9; int32 day = 10; }
"""
PROTO_ARROW = pa.struct(
    [("id", pa.int64()), ("customer", pa.string()), ("quantity", pa.int32()),
     ("price", pa.float64()), ("paid", pa.bool_()), ("note", pa.string()), ("at", pa.int64()),
     ("total", pa.string()), ("state", pa.string()), ("day", pa.int32())]
)  # fmt: skip
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def row_of(n: int) -> dict[str, object]:
    return {
        "id": n, "customer": f"customer {n % 977}", "quantity": n % 7, "price": n / 3,
        "paid": n % 2 == 0, "note": None if n % 3 else f"note {n}",
        "at": _BEGIN + timedelta(microseconds=n * 7919), "total": Decimal(n - 500) / 100,
        "state": ("new", "sent")[n % 2], "day": date(2026, 1, 1) + timedelta(days=n % 400),
    }  # fmt: skip


def alone(port: int, rows: int) -> dict[str, float]:
    """Rows per second of CPU, one core."""
    schema = fastavro.parse_schema(AVRO)
    with RegistryClient(f"http://127.0.0.1:{port}") as client:
        begin = b"\0" + client.register(f"{TOPIC}-value", Schema(json.dumps(AVRO))).to_bytes(
            4, "big"
        )
        client.register("ten-proto-value", Schema(PROTO, PROTOBUF))
        codecs = Codecs(RegistryLookup(client))
        shown = json.loads(json.dumps(row_of(7), default=str)) | {"at": 7, "day": 7, "total": "1.5"}
        message = codecs.encode("ten-proto-value", shown)
        made = codecs.of(int.from_bytes(message[1:5], "big"))
        assert isinstance(made, ProtobufCodec)
        fields, messages = protobuf_plan.plan(made.message(), PROTO_ARROW), [message] * rows
        many = pa.array(messages, pa.binary())
        assert fields is not None and fields.convert(many) is not None
        values = [begin + _avro(schema, row_of(n)) for n in range(rows)]
        column = pa.array(values, pa.binary())
        steps = plan.plan(schema, ARROW)
        assert steps is not None and steps.convert(column) is not None
        text = codecs.decode(values[0])
        return {
            "decode to columns: headwater, Avro": rows / _cpu(lambda: steps.convert(column)),
            "decode to columns: headwater, Protobuf": rows / _cpu(lambda: fields.convert(many)),
            "decode to rows: fastavro": rows
            / _cpu(lambda: [_read(schema, each) for each in values]),
            "decode to JSON: headwater, Avro": 2_000
            / _cpu(lambda: [codecs.decode(each) for each in values[:2_000]]),
            "decode to JSON: headwater, Protobuf": 2_000
            / _cpu(lambda: [codecs.decode(message) for _ in range(2_000)]),
            "encode from JSON: headwater, Avro": 2_000
            / _cpu(lambda: [codecs.encode(f"{TOPIC}-value", text) for _ in range(2_000)]),
        }


def through_spark(bootstrap: str, port: int, rows: int) -> dict[str, float]:
    """Rows per second by the clock, local[2], the best of three reads."""
    url, schema = f"http://127.0.0.1:{port}", fastavro.parse_schema(AVRO)
    with RegistryClient(url) as client:
        begin = b"\0" + client.register(f"{TOPIC}-value", Schema(json.dumps(AVRO))).to_bytes(
            4, "big"
        )
    some = [begin + _avro(schema, row_of(n)) for n in range(10_000)]
    log = Log(bootstrap)
    log.ensure_topic(TOPIC, {}, partitions=2)
    log.close()
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 500_000})
    for n in range(rows):
        producer.produce(TOPIC, some[n % len(some)], partition=n % 2)
        if not n % 50_000:
            producer.flush()
    producer.flush()
    jars = maven.fetched("spark-avro-4.1.1", [SPARK_AVRO], alone=True)
    spark = session("local[2]", jars=list(jars.glob("*.jar")))
    try:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import from_avro

        known = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "columns": "value"}
        plain = spark.read.format("headwater").options(**known).load()
        ddl = avro_types.ddl(json.dumps(AVRO)).removeprefix("STRUCT<").removesuffix(">")
        typed = {**known, "schema": ddl.replace(": ", " "), "registry": url}
        columns = spark.read.format("headwater").options(**typed).load().select("value.*")
        body = plain.selectExpr("substring(value, 6) AS body")
        theirs = body.select(from_avro("body", json.dumps(AVRO)).alias("v")).select("v.*")
        frames = {
            "values as they are": plain,
            "by registry, ten columns": columns,
            "bytes, then from_avro": theirs,
        }
        found = {}
        for name, frame in frames.items():
            took, used = [], []
            for _ in "123":
                before = cpu_seconds()
                # Of all columns, as what nobody looks at need not be decoded; made anew, as Spark would not
                # read again for what it has shuffled before.
                hashed = frame.select(F.max(F.xxhash64(*frame.columns)))
                took.append(_clock(hashed.collect))
                used.append(cpu_seconds() - before)
            found[f"Spark reads: {name}"] = rows / min(took)
            found[f"Spark reads, per second of CPU: {name}"] = rows / min(used)
        assert columns.count() == rows
        return found
    finally:
        spark.stop()


def _avro(schema: object, row: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)  # type: ignore[arg-type]
    return out.getvalue()


def _read(schema: object, value: bytes) -> object:
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)  # type: ignore[arg-type]


def _cpu(work: object) -> float:
    began = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - began


def _clock(work: object) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - began
