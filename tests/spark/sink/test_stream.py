"""The stream writer in a real query: rows arrive once, in order, where Kafka's partitioner puts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.partitioner.default import murmur2
from pyspark.sql import SparkSession

from tests.compat.cluster import Cluster
from tests.spark.sink.acting import Run
from tests.spark.sink.sessions import committed, numbers, run_batches, start


def test_each_row_is_there_once_and_in_order_of_its_key(
    cluster: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    topic = cluster.create_topic(new_name(), 4)
    query = start(numbers(spark, 1000), cluster.bootstrap, checkpoint, topic=topic)
    run_batches(query, 2)

    found = committed(cluster.bootstrap, topic)
    values = sorted(int(each.value()) for of in found.values() for each in of)
    assert len(values) >= 3000 and values == list(range(len(values)))
    for partition, messages in found.items():
        by_key: dict[bytes, list[int]] = {}
        for each in messages:
            by_key.setdefault(each.key(), []).append(int(each.value()))
        for key, of in by_key.items():
            assert (murmur2(key) & 0x7FFFFFFF) % 4 == partition
            # Within a task rows keep their order; tasks of one batch run side by side.
            batches = [[each for each in of if each // 1000 == n] for n in range(len(of))]
            assert of == [each for batch in batches for each in batch]


def test_a_query_goes_on_after_a_restart(
    log: Cluster, spark: SparkSession, checkpoint: str, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 2)
    for last in (1, 3):
        query = start(numbers(spark, 100), log.bootstrap, checkpoint, topic=topic)
        run_batches(query, last)
    found = committed(log.bootstrap, topic)
    values = sorted(int(each.value()) for of in found.values() for each in of)
    assert values == list(range(len(values))) and len(values) >= 400


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_readable(
    compression: str, log: Cluster, new_name: Callable[[], str]
) -> None:
    topic = log.create_topic(new_name(), 1)
    run = Run(log.bootstrap, topic, topic, options={"kafka.compression.type": compression})
    run.do(0, [str(n) for n in range(1000)])
    found = committed(log.bootstrap, topic)[0]
    assert sorted(int(each.value()) for each in found) == list(range(1000))
