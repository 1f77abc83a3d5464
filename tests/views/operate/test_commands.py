"""The commands that look at views and switch between their versions, as a person runs them; no Spark."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.cli import main
from headwater.cli.rebuild import Pace
from headwater.cli.wait import NOT_YET
from tests.views.operate.conftest import Moved

PIPELINE = """
import headwater as hw

@hw.view("orders_view", key="id", to="sqlite:{path}")
def orders_view():
    raise AssertionError("nobody needs the query")

@hw.view("copies", key="id", to="topic:copies")
def copies():
    raise AssertionError("nobody needs the query")
"""


@pytest.fixture
def pipeline(moved: Moved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "orders_pipeline.py"
    path.write_text(PIPELINE.format(path=moved.target.path))
    monkeypatch.chdir(tmp_path)
    return str(path)


def test_views_lists_each_with_its_lag(
    moved: Moved, pipeline: str, bootstrap: str, capsys: pytest.CaptureFixture[str]
):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(5):
        producer.produce("for-views", str(number), partition=0)
    assert producer.flush(60) == 0
    moved.write("for-views:0=3", [(1, "a", 1.0)])
    assert main(["views", pipeline, "--bootstrap", bootstrap]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["VIEW", "VERSION", "LAG", "SECONDS", "FRESHNESS", "VERIFIED", "TO"]
    assert said[1].split()[:3] == ["orders_view", "1", "2"]
    assert said[2].split()[:4] == ["copies", "-", "not", "begun"]
    assert said[3] == "orders_view is at for-views:0=3"
    assert main(["views", pipeline, "--bootstrap", bootstrap, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["lag_records"], first["position"]) == (2, {"for-views": {"0": 3}})
    assert second["position"] is None


def test_wait_says_by_its_exit_code_whether_the_view_has_it(
    moved: Moved, pipeline: str, capsys: pytest.CaptureFixture[str]
):
    moved.write("orders:0=17", [])
    words = ["wait", "orders_view", pipeline, "--timeout", "0", "--position"]
    assert main([*words, "orders:0=17"]) == 0
    assert capsys.readouterr().out == "orders_view has it: it is at orders:0=17\n"
    assert main([*words, "orders:0=18", "--json"]) == NOT_YET
    assert json.loads(capsys.readouterr().out)["position"] == "orders:0=17"
    assert main([*words, "seventeen"]) == 1
    assert "is no position" in capsys.readouterr().err
    assert main(["wait", "order_view", pipeline, "--position", "orders:0=1"]) == 1
    assert "did you mean 'orders_view'?" in capsys.readouterr().err
    assert main(["wait", "copies", pipeline, "--position", "orders:0=1"]) == 1
    assert "keeps no position of its own" in capsys.readouterr().err


def test_a_view_may_live_elsewhere_than_its_file_says(
    pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = Moved(tmp_path / "other.db")
    other.write("orders:0=5", [])
    words = ["wait", "orders_view", pipeline, "--timeout", "0", "--position", "orders:0=5"]
    assert main(words) == NOT_YET
    assert main([*words, "--to", f"orders_view={other.to}"]) == 0
    assert main([*words, "--to", "order_view=sqlite:x.db"]) == 1
    assert "did you mean 'orders_view'?" in capsys.readouterr().err


def test_versions_are_switched_returned_to_and_dropped(
    moved: Moved, pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    moved.write("orders:0=9", [(1, "old", 1.0)])
    assert main(["rebuild", "orders_view", pipeline, "--back"]) == 1
    assert "no other version than 1 to go to" in capsys.readouterr().err
    newer = Moved(tmp_path / "views.db", version=2)
    newer.write("orders:0=10", [(1, "new", 1.0)])
    folder = tmp_path / "data" / "checkpoints" / "orders_view@2"
    folder.mkdir(parents=True)

    assert main(["rebuild", "orders_view", pipeline, "--switch"]) == 0
    assert "Readers see version 2" in capsys.readouterr().out
    assert newer.target.current() == 2
    assert main(["rebuild", "orders_view", pipeline, "--back"]) == 0
    assert "It is 1 records behind version 2" in capsys.readouterr().out
    assert moved.target.current() == 1

    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # another kind of lock is not a driver's
    assert main(["rebuild", "orders_view", pipeline, "--drop", "--version", "1"]) == 1
    assert "is what readers see" in capsys.readouterr().err
    assert main(["rebuild", "orders_view", pipeline, "--drop", "--version", "7"]) == 1
    assert "there are 1, 2" in capsys.readouterr().err
    assert main(["rebuild", "orders_view", pipeline, "--drop"]) == 0
    assert list(moved.target.versions()) == [1]
    assert not folder.exists()
    assert main(["rebuild", "orders_view", pipeline, "--drop"]) == 0
    assert "has no other version than 1" in capsys.readouterr().out
    assert main(["rebuild", "orders_view", pipeline, "--drop", "--back"]) == 2


def test_a_drop_takes_the_checkpoint_with_it_or_says_what_is_left(
    moved: Moved, pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    moved.write("orders:0=9", [])
    words = ["rebuild", "orders_view", pipeline, "--drop", "--checkpoints"]
    folder = tmp_path / "notes" / "orders_view@2"
    for root in (f"file://{tmp_path}/notes", "s3a://bucket/notes/"):
        Moved(tmp_path / "views.db", version=2).write("orders:0=10", [])
        folder.mkdir(parents=True, exist_ok=True)
        assert main([*words, root]) == 0
        assert folder.exists() == root.startswith("s3a:")
    assert "for you to remove: s3a://bucket/notes/orders_view@2\n" in capsys.readouterr().out


def test_a_project_says_what_no_word_does(
    moved: Moved, pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    moved.write("orders:0=9", [])
    (tmp_path / "headwater.toml").write_text(f'[pipelines]\npaths = ["{Path(pipeline).name}"]\n')
    assert main(["wait", "orders_view", "--timeout", "0", "--position", "orders:0=9"]) == 0
    (tmp_path / "headwater.toml").unlink()
    assert main(["wait", "orders_view", "--timeout", "0", "--position", "orders:0=9"]) == 1
    assert "there is no headwater.toml" in capsys.readouterr().err


def test_the_pace_is_that_since_the_first_look():
    pace = Pace()
    assert pace.told(0, 1000, 10.0) == "waiting for the first batch"
    assert pace.told(100, 1000, 11.0) == "100 records/s, 9 s left"
    assert pace.told(500, 1000, 12.0) == "250 records/s, 2 s left"
