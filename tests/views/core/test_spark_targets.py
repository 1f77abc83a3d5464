"""Targets that Spark writes itself are of the one contract, as far as it is about them.

What of the suite for stores (`TargetConformance`) asks for rows, versions or a position beside the rows is
refused by them in words. That their rows are those of a batch: tests/values/test_written.py.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.pipelines.declarations import View, in_store
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.targets import SparkTarget, make_place, takes_updates, writer_of
from headwater.processing import request_reply
from headwater.testing import Rehearsal
from headwater.testing.targets import at, shape
from headwater.views import Applied, Kind, Misfit, NoSuchTarget, Target, register, target_for
from headwater.views.targets import registry

BOTH = {Kind.APPEND, Kind.UPSERT}
KINDS = {
    "topic:orders": BOTH,
    "parquet:data/orders": {Kind.APPEND},
    "memory:": {Kind.APPEND},
    "console:": {Kind.APPEND},
    request_reply.REPLIES: {Kind.APPEND},
}
every = pytest.mark.parametrize("to", KINDS)


def test_every_target_that_headwater_has_is_a_class_made_from_target() -> None:
    found = {name: registry._factory(f"{name}:x") for name in registry.schemes()}
    assert {f"{name}:" for name in found} >= {to.partition(":")[0] + ":" for to in KINDS}
    assert [name for name, each in found.items() if not issubclass(each, Target)] == []  # type: ignore[arg-type]
    others = {name for name, each in found.items() if issubclass(each, SparkTarget)}  # type: ignore[arg-type]
    assert others == {to.partition(":")[0] for to in KINDS}


@every
def test_the_registry_makes_it_and_it_goes_to_tasks(to: str) -> None:
    given = shape(Kind.APPEND, options={"table": "seen"})
    target = pickle.loads(pickle.dumps(target_for(to, given)))
    assert isinstance(target, SparkTarget) and not registry.is_store(to)
    assert (target.address, target.rest, target.shape) == (to, to.partition(":")[2], given)
    assert (target.name, target.staging_folder, set(target.kinds)) == ("seen", None, KINDS[to])


@every
def test_a_kind_that_it_does_not_keep_is_refused(to: str) -> None:
    for kind in Kind:
        if kind in KINDS[to]:
            target_for(to, shape(kind))
        else:
            with pytest.raises(NoSuchTarget, match="does not keep the view 'customers' as"):
                target_for(to, shape(kind))


@every
def test_what_only_a_store_has_is_refused_in_words(to: str) -> None:
    target = target_for(to, shape(Kind.APPEND))
    assert (target.versions(), target.current(), target.can_widen()) == ({1: None}, 1, False)
    applied = Applied(0, 0, at(1))
    calls = [
        target.claim,
        target.applied,
        target.switch,
        target.drop,
        target.reading,
        lambda: target.stage(0, 0, iter(())),
        lambda: target.commit(applied, []),
        lambda: target.correct(applied, []),
    ]
    for call in calls:
        with pytest.raises(HeadwaterError, match=r"customers|cannot be repaired") as raised:
            call()
        assert raised.value.hint


@every
def test_a_view_goes_to_it_by_the_same_way_as_to_a_store(to: str) -> None:
    view = View("orders", lambda: None, to, ("id",), place="file.py:1")
    assert not in_store(view) and callable(writer_of(view))
    assert takes_updates(view) is (not to.startswith("parquet:"))


def test_only_an_empty_folder_of_its_own_is_begun_in(tmp_path: Path) -> None:
    target = target_for(f"parquet:{tmp_path / 'new'}", shape(Kind.APPEND))
    target.create()
    (tmp_path / "new").mkdir()
    target.create()
    (tmp_path / "new" / "other.csv").touch()
    with pytest.raises(Misfit, match="files that are not its own"):
        target.create()
    make_place(
        View("v", lambda: None, f"sqlite:{tmp_path / 'new'}", ("id",))
    )  # not asked of stores


def test_nobody_takes_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for to in KINDS:
        with pytest.raises(NoSuchTarget, match="is headwater's own"):
            register(to.partition(":")[0], "mine:Target")
    monkeypatch.setattr(registry, "_OTHERS", {})
    monkeypatch.setitem(registry._STORES, "topic", "mine:Target")
    with pytest.raises(NoSuchTarget, match="topic: is headwater's own"):
        register("topic", "headwater.pipelines.targets:TopicTarget", is_store=False)


def test_a_view_that_goes_nowhere_hears_of_all_of_them() -> None:
    with pytest.raises(PipelineError, match="names no target") as raised:
        writer_of(View("v", lambda: None, "nowhere:x", place="file.py:1"))
    assert all(f"{to.partition(':')[0]}:" in (raised.value.hint or "") for to in KINDS)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["topic", "parquet"])
def test_a_batch_that_comes_again_changes_nothing(
    headwater_test: Rehearsal, tmp_path: Path, scheme: str
) -> None:
    @hw.view("seen", to=f"{scheme}:{tmp_path / 'seen' if scheme == 'parquet' else 'seen'}")
    def seen() -> object:
        return hw.stream("orders", schema="id LONG").select("id")

    headwater_test.send("orders", {"id": 1}, {"id": 1}, {"id": 2})
    headwater_test.run(seen)
    headwater_test.kill()
    headwater_test.send("orders", {"id": 3})
    headwater_test.run(seen)
    assert [row["id"] for row in headwater_test.rows(seen)] == [1, 1, 2, 3]
