"""A third party's target: a class, an entry point in its package, and the conformance suite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.pipelines import stores
from headwater.pipelines.declarations import View, in_store
from headwater.pipelines.targets import SparkTarget, writer_of
from headwater.testing.targets import ADA, Make, TargetConformance, Writer, rows_of, shape
from headwater.views import NoSuchTarget, target_for
from headwater.views.targets import registry
from tests.docs.pages import ROOT, snippets
from tests.installs.packages import install

GROUP = "headwater.targets"
NAME, MODULE = "headwater-jsonfile", "headwater_jsonfile"


def text_of_the_page() -> str:
    """The class that docs/targets.md shows, as its package would have it."""
    page = snippets(ROOT / "docs" / "targets.md")
    (text,) = (each.text for each in page if "class JsonFileTarget" in each.text)
    return text[: text.index('register("jsonfile"')]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path, into which packages are installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return folder


@pytest.fixture
def installed(packages: Path) -> Path:
    offers = {GROUP: {"jsonfile": f"{MODULE}:JsonFileTarget"}}
    return install(packages, NAME, {MODULE: text_of_the_page()}, offers)


class TestConformance(TargetConformance):
    @pytest.fixture
    def make(self, installed: Path, tmp_path: Path) -> Make:
        return lambda given: target_for(f"jsonfile:{tmp_path}", given)


def test_a_view_can_go_to_the_target_of_an_installed_package(installed: Path, tmp_path: Path):
    view = View("customers", lambda: None, to=f"jsonfile:{tmp_path}/web", key=("id",))
    assert in_store(view) and writer_of(view) is stores.writer_of
    writer = Writer(target_for(view.to, shape()))
    writer.write(0, [ADA])
    assert rows_of(writer.target) == [ADA]
    kept = json.loads((tmp_path / "web" / "customers.json").read_text())
    assert kept["versions"]["1"]["rows"]["1"]["name"] == "Ada"


def test_it_is_named_where_a_view_names_none(installed: Path):
    assert "jsonfile" in registry.schemes()
    with pytest.raises(NoSuchTarget) as raised:
        target_for("nothing:x", shape())
    assert "jsonfile:" in (raised.value.hint or "")


def test_a_fresh_process_finds_it_and_loads_it_only_when_it_is_used(installed: Path):
    program = (
        "import sys; from headwater.views.targets import registry; "
        f"assert registry.is_store('jsonfile:x') and '{MODULE}' not in sys.modules; "
        "from headwater.testing.targets import shape; registry.target_for('jsonfile:x', shape()); "
        f"assert '{MODULE}' in sys.modules"
    )
    path = [str(installed), str(ROOT / "src")]
    program = f"import sys; sys.path[:0] = {path}; {program}"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_a_package_does_not_take_a_name_of_headwater_s_own(packages: Path, tmp_path: Path):
    offers = {GROUP: {"sqlite": "other:Target", "topic": "other:Target"}}
    install(packages, "other", {"other": ""}, offers)
    Writer(target_for(f"sqlite:{tmp_path / 'x.db'}", shape())).write(0, [ADA])
    assert not registry.is_store("topic:orders")
    assert isinstance(target_for("topic:orders", shape()), SparkTarget)


def test_two_packages_that_offer_one_name_are_told_apart_by_a_person(installed: Path):
    install(installed, "other", {"other": ""}, {GROUP: {"jsonfile": "other:Target"}})
    with pytest.raises(HeadwaterError, match=r"other|headwater-jsonfile") as raised:
        target_for("jsonfile:x", shape())
    assert "pip uninstall" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_that_name", "cannot be loaded: No module named 'nothing_of_that_name'"),
        ("", "cannot be loaded: module 'broken' has no attribute 'Broken'"),
        ("class Broken: ...", "no class made from headwater.views.Target"),
    ],
)
def test_a_package_that_is_broken_is_named(
    packages: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
):
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    install(packages, "broken-target", {"broken": text}, {GROUP: {"broken": "broken:Broken"}})
    with pytest.raises(NoSuchTarget, match="broken-target") as raised:
        target_for("broken:x", shape())
    assert said in str(raised.value) and raised.value.hint
