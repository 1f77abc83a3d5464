"""The log of batches that a view over tables keeps in its checkpoint: Spark's files, in Spark's form."""

from __future__ import annotations

from pathlib import Path

from headwater.pipelines.batch_log import KEPT, BatchLog
from headwater.views import offset_log


def test_a_batch_is_planned_before_it_is_done_and_others_can_read_where_it_ends(tmp_path: Path):
    log = BatchLog(tmp_path)
    assert (log.last_planned(), log.last_done()) == (None, None)
    end = {"orders": {"0": 17, "1": 4}, "#": {"ids": {"orders": "4b1c"}}}
    log.plan(0, end)
    again = BatchLog(tmp_path)
    assert (again.last_planned(), again.last_done(), again.end_of(0)) == (0, None, end)
    assert offset_log.position_of(str(tmp_path), 0).offsets == {"orders": {0: 17, 1: 4}}
    again.done(0)
    assert again.last_done() == 0
    assert again.query_id == log.query_id


def test_the_first_batch_begins_where_it_was_first_said_to(tmp_path: Path):
    first = BatchLog(tmp_path).begin(lambda: {"orders": {"0": 5}})
    later = BatchLog(tmp_path).begin(lambda: {"orders": {"0": 99}})
    assert first == later == {"orders": {"0": 5}}


def test_only_so_many_batches_are_kept(tmp_path: Path):
    log = BatchLog(tmp_path)
    for batch in range(KEPT + 5):
        log.plan(batch, {"orders": {"0": batch}})
        log.done(batch)
    for kind in ("offsets", "commits"):
        left = sorted(int(each.name) for each in (tmp_path / kind).iterdir())
        assert left == list(range(5, KEPT + 5))
