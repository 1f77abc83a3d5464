"""A view built anew beside the one that serves: readers never see an older state, and the query follows."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.client.position import Position
from headwater.pipelines import current_version, rebuild
from headwater.pipelines.application import prepare
from headwater.pipelines.checkpoints import Checkpoints, Shape
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.handles import handle
from headwater.pipelines.query_context import QueryContext
from headwater.pipelines.query_settings import tune
from headwater.pipelines.rebuild import Rebuilding
from headwater.views.operate.versions import versions_of
from tests.spark.run.desk import Desk
from tests.views.operate.conftest import Moved


def names(path: Path, table: str) -> dict[int, str]:
    connection = sqlite3.connect(path)
    try:
        return dict(connection.execute(f"SELECT id, name FROM {table}").fetchall())
    finally:
        connection.close()


class Watching:
    """An audience that makes the log go on while a version is built."""

    def __init__(self, load: Callable[[], None]) -> None:
        self.said: list[str] = []
        self.done: list[tuple[int, int]] = []
        self._load = load

    def progress(self, done: int, total: int) -> None:
        self.done.append((done, total))
        self._load()

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def begun(desk: Desk, view: View, audience: Watching, stopped: threading.Event) -> Rebuilding:
    """A rebuild of the next version on the test's own Spark session."""
    versions = versions_of(handle(view))
    fresh = replace(view, version=versions.following)
    around = QueryContext(
        build=desk.build,
        tune=lambda built: tune(desk.spark, built, desk.checkpoints),
        checkpoints=desk.checkpoints,
        log=desk.log,
        say=audience.say,
        current=lambda view: view.version,
    )
    (query,) = prepare([fresh], around, desk.log.topics())
    serving = replace(view, version=versions.current)
    folder = Path(desk.checkpoints.of(serving.checkpoint))
    target = handle(fresh).version(fresh.version)
    return Rebuilding(query, target, serving, folder, desk.log, audience, stopped)


def test_a_new_version_passes_the_one_that_serves_and_the_running_query_follows(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str]
):
    shop, topic = tmp_path / "shop.db", new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)

    @hw.view("people", key="id", to=f"sqlite:{shop}")
    def people():
        return hw.stream(topic, schema="id BIGINT, name STRING")

    (view,) = DECLARED.views()[-1:]
    expected: dict[int, str] = {}

    def send(*rows: tuple[int, str]) -> None:
        expected.update(rows)
        desk.send(topic, [(str(n), json.dumps({"id": n, "name": name})) for n, name in rows])

    def caught_up() -> bool:
        end = desk.log.ends([(topic, 0)])[topic, 0]
        position = handle(view).position()
        return position is not None and position.covers(Position({topic: {0: end}}))

    send(*((n, "first") for n in range(2000)))
    (running,) = desk.begin(view)
    desk.step_until(caught_up, "the first version")
    connection = sqlite3.connect(shop, isolation_level=None)
    connection.execute("UPDATE people SET name = 'planted' WHERE id = 5")
    connection.execute("DELETE FROM people WHERE id = 6")
    connection.close()

    # Built while the log goes on; then shown, never behind what readers have seen.
    audience = Watching(lambda: send((3000 + len(audience.done), "moving")))
    made = begun(desk, view, audience, threading.Event())
    assert made.run(switch=True) == rebuild.DONE
    assert audience.said[-1].startswith("readers see version 2 now; version 1 is kept")
    assert audience.done[-1][0] <= audience.done[-1][1]
    versions = versions_of(handle(view))
    assert versions.current == 2
    assert versions.position(2).covers(versions.position(1))
    assert names(shop, "people__v1")[5] == "planted"
    assert names(shop, "people")[6] == expected[6]

    # The running query sees the switch, and takes the new version's checkpoint over.
    desk.step_until(lambda: running.view.version == 2, "the query to follow")
    send((5000, "after the switch"))
    desk.step_until(caught_up, "the second version")
    assert names(shop, "people") == expected
    assert 5000 not in names(shop, "people__v1")

    # Back: the old version goes on from where it stood.
    handle(view).version(1).switch()
    desk.step_until(lambda: running.view.version == 1, "the query to go back")
    desk.step_until(caught_up, "the first version again")
    went_back = {**expected, 5: "planted"}
    del went_back[6]
    assert names(shop, "people") == went_back
    handle(view).version(2).drop()
    assert list(versions_of(handle(view)).known) == [1]


# ---- without Spark -------------------------------------------------------------------------------


class Notes(Checkpoints):
    """The folder of checkpoints, without a session."""

    def __init__(self, root: Path) -> None:
        self.root, self.is_local, self.remote = str(root), True, False


def test_an_interrupted_rebuild_goes_on_unless_its_query_was_edited(moved: Moved, tmp_path: Path):
    view = View(moved.name, lambda: None, moved.to, key=("id",))
    notes = Notes(tmp_path / "checkpoints")
    assert number(moved, view, "text", notes) == 2
    Moved(moved.target.path, version=2)
    assert number(moved, view, "text", notes) == 3  # somebody made it, but no rebuild
    second = replace(view, version=2)
    Path(notes.of(second.checkpoint)).mkdir(parents=True)
    current_version.note(notes, second, "text")
    assert number(moved, view, "text", notes) == 2
    with pytest.raises(PipelineError, match="edited since"):
        number(moved, view, "another text", notes)
    Moved(moved.target.path, version=2).target.switch()
    assert number(moved, view, "another text", notes) == 3
    left = replace(view, version=3)
    notes.admit(left.checkpoint, Shape((), (), "update", moved.to))
    # One that was dropped has left a checkpoint.
    assert number(moved, view, "another text", notes) == 4


def number(moved: Moved, view: View, text: str, notes: Any) -> int:
    return current_version.number_for(versions_of(handle(view)), view, text, notes)
