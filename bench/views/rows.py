"""The rows that every contestant writes: orders, the same for all, from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

KEY = ("id",)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("item", pa.string()),
        ("total", pa.float64()),
        ("placed_at", pa.timestamp("us", "UTC")),
    ]
)
NAMES = SCHEMA.names
_WORDS = (
    "garden", "chair", "table", "lamp", "kettle", "blue", "red", "green", "steel", "oak", "small",
    "large", "folding", "quiet",
)  # fmt: skip


def write(folder: Path, rounds: int, rows: int, batch: int) -> list[Path]:
    """Files of one batch each. Every round has the same keys with other values."""
    folder.mkdir(parents=True)
    files = []
    for number in range(rounds):
        for begin in range(0, rows, batch):
            path = folder / f"{number}-{begin:09}.parquet"
            pq.write_table(_orders(number, begin, min(begin + batch, rows)), path)
            files.append(path)
    return files


def _orders(number: int, begin: int, end: int) -> pa.Table:
    ids = range(begin, end)
    pick = [(n * 2654435761 + number) % 2**32 for n in ids]  # spread, and the same in every run
    return pa.table(
        {
            "id": ids,
            "customer": [f"customer {p % 50_000}" for p in pick],
            "item": [
                f"{_WORDS[p % 14]} {_WORDS[p // 14 % 14]} {_WORDS[p // 196 % 14]}" for p in pick
            ],
            "total": [p % 100_000 / 100 for p in pick],
            "placed_at": [1_700_000_000_000_000 + p * 1000 for p in pick],
        },
        schema=SCHEMA,
    )


def frame(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.parquet(str(path))


def tuples(path: Path, limit: int | None = None) -> list[tuple[Any, ...]]:
    """As a Python program has them."""
    table = pq.read_table(path)
    if limit is not None:
        table = table.slice(0, limit)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
