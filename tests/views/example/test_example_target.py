"""The target that docs/targets.md shows: it keeps the promises that the page makes for it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from headwater.testing.targets import Make, TargetConformance, Writer, rows_of, shape
from tests.docs.pages import ROOT, snippets


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's class as a module, so that it can be sent to tasks."""
    page = snippets(ROOT / "docs" / "targets.md")
    (text,) = (each.text for each in page if "class JsonFileTarget" in each.text)
    path = tmp_path_factory.mktemp("shown") / "shown_target.py"
    path.write_text(text[: text.index('register("jsonfile"')], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("shown_target", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shown_target"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shown_target"]


class TestConformance(TargetConformance):
    @pytest.fixture
    def make(self, shown: ModuleType, tmp_path: Path) -> Make:
        return lambda given: shown.JsonFileTarget(f"jsonfile:{tmp_path}", given)


def test_the_example_refuses_a_row_and_goes_on(shown: ModuleType, tmp_path: Path):
    import pyarrow as pa

    schema = pa.schema([("id", pa.string())])
    target = shown.JsonFileTarget(f"jsonfile:{tmp_path}", shape(schema=schema))
    (refusal,) = Writer(target).write(0, [("a",), ("k" * 2000,), ("b",)])
    assert refusal.number == 1
    assert rows_of(target) == [("a",), ("b",)]
