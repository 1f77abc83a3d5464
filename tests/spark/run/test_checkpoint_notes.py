"""The note beside a checkpoint says which format it has: an older one is taken, a later one refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.client.log import Log
from headwater.pipelines.builder import Built
from headwater.pipelines.checkpoints import LIMIT, NOTE, Checkpoints, Shape
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.query import Query, State
from headwater.pipelines.query_context import QueryContext
from tests.broker.serving import serving

SHAPE = Shape(("headwater orders",), (), "update", "topic:x")
UNUSED: Any = None
"""On a local path Spark is not asked."""


def test_a_note_of_0_1_0_has_no_format_and_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    said = {"sources": ["headwater orders"], "state": [], "mode": "update", "to": "topic:x"}
    (folder / NOTE).write_text(json.dumps(said) + "\n")
    Checkpoints(str(tmp_path), UNUSED).admit("orders", SHAPE)


def test_a_checkpoint_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), UNUSED)
    checkpoints.admit("orders", SHAPE)
    note = tmp_path / "orders" / NOTE
    said = json.loads(note.read_text())
    assert said["format"] == 1
    note.write_text(json.dumps({**said, "format": 2, "state": "said otherwise"}))
    before = note.read_bytes()
    with pytest.raises(PipelineError, match="the checkpoint of 'orders' was written by a later"):
        checkpoints.admit("orders", SHAPE)
    assert note.read_bytes() == before


DAMAGED = ["", "{", "[]", "{}", "17", '{"sources": 1, "state": [], "mode": "update", "to": "x"}']


@pytest.mark.parametrize("text", DAMAGED)
def test_a_note_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / NOTE).write_text(text)
    with pytest.raises(PipelineError, match="cannot be read"):
        Checkpoints(str(tmp_path), UNUSED).admit("orders", SHAPE)


@pytest.mark.parametrize("text", ['{"format": 2}', "{"])
def test_a_query_with_such_a_checkpoint_is_refused_and_not_tried_again(
    tmp_path: Path, text: str
) -> None:
    view = View("orders", lambda: None, "topic:x", place="orders.py:1")
    checkpoints = Checkpoints(str(tmp_path / "checkpoints"), UNUSED)
    (tmp_path / "checkpoints" / view.checkpoint).mkdir(parents=True)
    (tmp_path / "checkpoints" / view.checkpoint / NOTE).write_text(text)
    said: list[str] = []
    built = Built(view, UNUSED, "append", SHAPE, False, (), UNUSED, None)
    with serving(tmp_path / "data") as broker:
        log = Log(broker.bootstrap)
        around = QueryContext(lambda _: built, lambda _: None, checkpoints, log, said.append)
        query = Query(built, around)
        query.step()
        assert query.state is State.REFUSED, said
        query.step()
        query.stop()
        log.close()
    assert [each.partition(": refused: ")[0] for each in said] == ["orders"], said


def test_a_limit_that_cannot_be_read_is_found_out_again(tmp_path: Path) -> None:
    view = View("orders", lambda: None, "topic:x", place="orders.py:1")
    (tmp_path / view.checkpoint).mkdir()
    (tmp_path / view.checkpoint / LIMIT).write_text("many\n")
    assert Checkpoints(str(tmp_path), UNUSED).with_limit(view) == view
