"""Spark's speculation, on a real cluster: who loses holds nobody up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.client import cluster as connect
from tests.compat.cluster import Cluster
from tests.spark.run import servers
from tests.spark.sink.sessions import committed, fill


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_readers_get_past_a_task_that_lost_against_its_speculative_copy(
    log: Cluster, tmp_path: Path, new_name: Callable[[], str]
) -> None:
    """
    task 0, attempt 0   ── rows ── stands still ───────────── killed
    task 0, attempt 1              ── all rows ── done
    driver                                          decide ── end ── fence
    """
    source, topic = log.create_topic(new_name(), 2), log.create_topic(new_name(), 2)
    fill(log.bootstrap, source, 200)
    with servers.standalone(tmp_path, workers=2) as master:
        words = [master, log.bootstrap, source, topic, str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.sink.speculating", *words],
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "attempt-0-1").exists(), "Spark has speculated"
    cluster = connect.cluster({"bootstrap.servers": log.bootstrap})
    places = dict.fromkeys([(topic, 0), (topic, 1)], connect.LATEST)
    assert cluster.list_offsets(places, connect.READ_COMMITTED) == cluster.list_offsets(places)
    found = [int(each.value()) for of in committed(log.bootstrap, topic).values() for each in of]
    assert sorted(found) == list(range(200))
