"""What pipeline files declare, and the sentences for files and words that cannot be meant. No Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.pipelines import loader, view
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.targets import writer_of


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        del sys.modules[name]
    DECLARED.clear()


def load(*paths: Path) -> list[View]:
    return loader.load(loader.read(paths))


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


ONE = "import headwater as hw\n@hw.view('{0}', key='id')\ndef {0}():\n    return None\n"


def test_a_file_declares_views_and_calls_none_of_them(tmp_path: Path):
    (found,) = load(written(tmp_path, orders=ONE.format("orders")) / "orders.py")
    assert (found.name, found.key, found.to) == ("orders", ("id",), "topic:orders")
    assert found.place.endswith("orders.py:2")
    assert found.group == "headwater-orders"
    assert found.dead_letters == "dlq.headwater-orders"


def test_a_folder_stands_for_its_files_in_the_order_of_their_names(tmp_path: Path):
    files = {name: ONE.format(name) for name in ("b", "a", "c", "_helper")}
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep", d=ONE.format("d"))
    assert [each.name for each in load(written(tmp_path, **files))] == ["a", "b", "c", "d"]


def test_files_of_a_folder_may_import_each_other_and_are_still_run_once(tmp_path: Path):
    shared = "import zz_shared\n" + ONE.format("a")
    folder = written(tmp_path, a_first=shared, zz_shared=ONE.format("b"))
    assert [each.name for each in load(folder)] == ["b", "a"]


def test_a_file_may_be_named_like_a_library(tmp_path: Path):
    import json

    assert [each.name for each in load(written(tmp_path, json=ONE.format("a")))] == ["a"]
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import headwater\n\nx = (1,\n", "bad.py, line 3 is not Python: '(' was never closed"),
        ("x = 1\ny = x + nothing\n", "bad.py, line 2 failed: NameError: name 'nothing' is not"),
        ("def f():\n    return 1 / 0\n\nf()\n", "bad.py, line 2 failed: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "bad.py, line 2 failed: SystemExit: 3"),
        ("import no_such_module\n", "bad.py, line 1 failed: ModuleNotFoundError"),
        ("x = 1\n", "no view is declared in"),
        (ONE.format("a").replace("'a'", "'a b'"), "'a b' cannot be the name of a view"),
        (
            ONE.format("a").replace("key='id'", "mode='upsert'"),
            "there are append, update, complete",
        ),
        (ONE.format("a").replace("key='id'", "speed='fast'"), "there are micro-batch, real-time"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_its_place(
    tmp_path: Path, text: str, sentence: str
):
    with pytest.raises(PipelineError) as refusal:
        load(written(tmp_path, bad=text) / "bad.py")
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_path_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(PipelineError, match=r"there is no file or folder .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(PipelineError, match="has no Python file"):
        load(tmp_path)


def test_two_views_with_one_name_are_refused_with_both_places(tmp_path: Path):
    folder = written(tmp_path, one=ONE.format("a"), two="\n\n" + ONE.format("a"))
    with pytest.raises(PipelineError, match=r"two views are named 'a': .*one.py:2 and .*two.py:4"):
        load(folder)


@pytest.mark.parametrize("to", ["nowhere:x", "orders", "Topic:x", ""])
def test_a_target_that_is_not_there_is_refused_with_those_that_are(to: str):
    @view("a", to=to)
    def a() -> None: ...

    with pytest.raises(PipelineError, match="names no target") as refusal:
        writer_of(DECLARED.views()[0])
    assert "topic:, parquet:, memory:, console:" in (refusal.value.hint or "")
