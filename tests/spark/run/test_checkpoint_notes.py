"""The note beside a checkpoint says which format it has: an older one is taken, a later one refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.format_version import NewerFormat
from headwater.pipelines.checkpoints import NOTE, Checkpoints, Shape

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
    with pytest.raises(NewerFormat, match="the checkpoint of 'orders' was written by a later"):
        checkpoints.admit("orders", SHAPE)
    assert note.read_bytes() == before
