"""Spark's own Kafka connector, the peer of the source: its jars, fetched once by Maven."""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.pipelines import maven
from headwater.testing.kafka_jars import MissingServer


def connector_jars() -> list[Path]:
    """Paths for `spark.jars`; MissingServer where they cannot be had."""
    try:
        return list(maven.spark_connector(_say))
    except maven.NotFetched as error:
        raise MissingServer(f"Spark's Kafka connector: {error.args[0]}") from error


def _say() -> None:
    print("Spark's Kafka connector: Maven fetches it, once …", file=sys.stderr, flush=True)
