"""The pipeline on the page docs/pipelines.md is one that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headwater.pipelines import progress
from headwater.pipelines.loader import load, read
from tests.docs.pages import ROOT, snippets
from tests.spark.run.desk import Desk

PAGE = ROOT / "docs" / "pipelines.md"


def test_the_pipeline_on_the_page_runs(desk: Desk, tmp_path: Path):
    (snippet,) = [each for each in snippets(PAGE) if each.language == "python"]
    file = tmp_path / "page.py"
    file.write_text(snippet.text)
    desk.log.ensure_topic("orders", {}, partitions=1)
    order = {"order_id": "a", "customer": "ann", "total": 1500.0, "at": "2026-01-01T10:30:00Z"}
    desk.send("orders", [("a", json.dumps(order)), ("b", json.dumps({**order, "total": 5.0}))])
    large, sales = load(read([file]))
    desk.begin(large, sales)
    for view in (large, sales):
        desk.step_until(lambda view=view: desk.committed(view.group, "orders") == 2, view.name)
    assert [row["total"] for row in desk.rows("large_orders")] == [1500.0]
    (row,) = desk.rows("sales")
    assert (row["customer"], row["total"]) == ("ann", 1505.0)
    assert row["hour"].startswith("2026-01-01T10:00:00")


def test_every_field_of_the_progress_topic_is_on_the_page():
    said = progress.record(
        progress.Gathered(),
        query="q",
        to="topic:q",
        at_ms=0,
        lag_records=0,
        lag_ms=0,
        freshness_ms=0,
        dead_letter_rows=0,
        position={},
    )
    named = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    assert set(said) - named == set()
