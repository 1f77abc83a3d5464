"""Flink SQL, timed: run by the interpreter that has it, with nothing of headwater's.

    python -m bench.nexmark.flink_peer BOOTSTRAP CONNECTOR FOLDER QUERY…

One local cluster of one process, with two slots; results go to a `blackhole`, those of q10 to files. Prints a
line of JSON for each query, which is run twice; the second time counts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.broker import meter
from bench.nexmark.flink_queries import QUERIES, SETTINGS, tables

_CORES = 2


def main() -> None:
    bootstrap, connector, folder = sys.argv[1:4]
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        **SETTINGS,
        "parallelism.default": str(_CORES),
        "pipeline.jars": f"file://{connector}",
    }
    settings["execution.checkpointing.dir"] = f"file://{folder}/checkpoints"
    for name, value in settings.items():
        environment.get_config().set(name, value)
    for statement in tables(bootstrap):
        environment.execute_sql(statement)
    for query in sys.argv[4:]:
        try:
            for number in range(2):
                told = measure(environment, query, f"{folder}/{number}-{query}")
        except Exception as error:
            told = {"failed": str(error).strip()[:400]}
        print(json.dumps({"query": query, **told}), flush=True)


def measure(environment, query: str, folder: str) -> dict[str, object]:  # type: ignore[no-untyped-def]
    found = environment.sql_query(QUERIES[query])
    names = found.get_schema().get_field_names()
    kinds = found.get_schema().get_field_data_types()
    columns = ", ".join(f"`{name}` {_type(kind)}" for name, kind in zip(names, kinds, strict=True))
    sink = f"sink_{query}_{time.time_ns()}"
    if query == "q10":
        where = f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv'"
        statement = (
            f"CREATE TEMPORARY TABLE {sink} ({columns}) PARTITIONED BY (dt, hm) WITH ({where})"
        )
    else:
        statement = f"CREATE TEMPORARY TABLE {sink} ({columns}) WITH ('connector' = 'blackhole')"
    environment.execute_sql(statement)
    own = os.getpid()
    before, began = meter.cpu_s(own), time.perf_counter()
    found.execute_insert(sink).wait()
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": meter.cpu_s(own) - before,
        "resident_mb": meter.resident_mb(own),
    }


def _type(kind: Any) -> str:
    return str(kind._sql_type()) if hasattr(kind, "_sql_type") else _SQL[type(kind).__name__](kind)


_SQL: dict[str, Callable[[Any], str]] = {
    "BigIntType": lambda kind: "BIGINT",
    "IntType": lambda kind: "INT",
    "DecimalType": lambda kind: f"DECIMAL({kind.precision}, {kind.scale})",
    "VarCharType": lambda kind: "STRING",
    "CharType": lambda kind: "STRING",
    "LocalZonedTimestampType": lambda kind: "TIMESTAMP_LTZ(3)",
    "TimestampType": lambda kind: "TIMESTAMP(3)",
    "DoubleType": lambda kind: "DOUBLE",
    "BooleanType": lambda kind: "BOOLEAN",
}


if __name__ == "__main__":
    main()
