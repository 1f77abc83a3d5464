"""What programs may import: public names, documented, typed; old ones still there, with a warning."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import headwater.testing
from tests.installs.public import PACKAGES, ROOT, public_modules, sources, used

PUBLIC = public_modules()
SOURCES = dict(sources())
MOVED = {
    "headwater.processing.asking": ("headwater.processing.request_reply", "Asker"),
    "headwater.processing.searching": ("headwater.processing.percolator", "match"),
    "headwater.views.json_rows": ("headwater.views.targets.json_rows", "objects"),
    "headwater.views.registry": ("headwater.views.targets.registry", "register"),
    "headwater.views.staged_files": ("headwater.views.targets.staged_files", "StagedFiles"),
    "headwater.views.target": ("headwater.views.targets.contract", "Target"),
    "headwater.views.texts": ("headwater.views.targets.texts", "key_texts"),
}
"""Modules that documents named, with their names of today and something that is in them."""
RENAMED = [
    *((package, old, new) for package in PACKAGES
      for old, new in getattr(import_module(package), "_OLD", {}).items()),
    ("headwater.testing.bridges", "end", "bridge_end"),
    ("headwater.testing.targets", "Conformance", "TargetConformance"),
]  # fmt: skip


def is_public(full: str) -> bool:
    """Whether a name is offered, or is a part of something that is."""
    if full in PUBLIC:
        return True
    module, _, name = full.rpartition(".")
    if module in PUBLIC:
        return name in PUBLIC[module].__all__
    return bool(module) and is_public(module) and module not in PUBLIC


@pytest.mark.parametrize("where", SOURCES)
def test_documents_examples_and_templates_use_public_names_only(where: str):
    assert [each for each in used(SOURCES[where]) if not is_public(each)] == []


def test_the_search_for_used_names_finds_imports_and_attributes():
    text = """
import headwater as hw
from headwater import processing as p
from headwater.events.saga import Saga
p.sum("x"); hw.views.View("v").wait("t:0=1"); hw.broker.Broker
"""
    found = {*used(text)}
    assert {
        "headwater.events.saga.Saga",
        "headwater.processing.sum",
        "headwater.views.View",
    } < found
    wrong = {each for each in found if not is_public(each)}
    assert wrong == {
        "headwater.events.saga.Saga",
        "headwater.broker",
        "headwater.broker.Broker",
    }


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there_and_documented(module: str):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for name in PUBLIC[module].__all__:
        value = getattr(PUBLIC[module], name)
        if name.startswith("__"):
            continue
        heading = f"{'##' if isinstance(value, ModuleType) else '###'} {module}.{name}"
        assert f"\n{heading}\n" in page


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_class_and_function_says_what_it_is(module: str):
    silent = [
        name
        for name in PUBLIC[module].__all__
        for value in [getattr(PUBLIC[module], name)]
        if (inspect.isclass(value) or inspect.isfunction(value)) and not value.__doc__
    ]
    assert silent == []


def test_public_signatures_have_types():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    whole = re.compile(r"^.*(?:\w: Any(?=[,)= ]|$)|-> Any$).*$", re.MULTILINE)
    assert whole.findall(page) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_are_told_the_same_names(package: str):
    module = import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    told = {
        each.asname: node.module if f"{node.module}.{each.name}" != module._HOME[each.name]
        else f"{node.module}.{each.name}"
        for block in tree.body if isinstance(block, ast.If)
        for node in block.body if isinstance(node, ast.ImportFrom)
        for each in node.names
    }  # fmt: skip
    assert told == module._HOME
    assert {*module.__all__} - {"__version__"} == {*module._HOME}


@pytest.mark.parametrize("module", PUBLIC)
def test_no_two_names_of_a_module_differ_by_case_alone(module: str):
    names = [name.lower() for name in PUBLIC[module].__all__]
    assert len(names) == len({*names})


def test_no_name_of_headwater_itself_means_something_else_further_in():
    own = {*PUBLIC["headwater"].__all__}
    for module in PACKAGES[1:]:
        assert own & {*PUBLIC[module].__all__} == set()


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_warns_and_is_the_new_thing(module: str, old: str, new: str):
    said = re.escape(f"{module}.{old} is now {module}.{new}")
    with pytest.warns(DeprecationWarning, match=said) as told:
        value = getattr(import_module(module), old)
    assert value is getattr(import_module(module), new)
    assert told[0].filename == __file__, "the warning names the line that uses the old name"
    assert old not in getattr(import_module(module), "__all__", ())


@pytest.mark.parametrize("old", MOVED)
def test_a_module_that_has_moved_warns_and_has_the_same_things(old: str):
    new, name = MOVED[old]
    with pytest.warns(DeprecationWarning, match=re.escape(f"{old}.{name} is now {new}.{name}")):
        assert getattr(import_module(old), name) is getattr(import_module(new), name)


def test_importing_an_old_name_warns_too():
    text = "from headwater.events import Running"
    with pytest.warns(DeprecationWarning, match="is now headwater.events.BlockingApplication"):
        exec(text, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("from headwater.events import BlockingApplication", {})


def test_the_old_name_of_a_brokers_listeners_warns_too():
    with headwater.testing.broker() as kafka:
        with pytest.warns(DeprecationWarning, match="is now broker.socket_server") as told:
            listeners = kafka.doors.listeners
        assert listeners is kafka.socket_server.listeners
        assert told[0].filename == __file__
        with pytest.raises(AttributeError, match="no_such"):
            kafka.no_such  # noqa: B018


def test_a_command_shows_the_warning_of_a_pipeline_file(tmp_path: Path):
    file = tmp_path / "sales.py"
    file.write_text("from headwater import processing as p\nsums = p.total('price')\n")
    words = ["headwater", "run", str(file), "--bootstrap", "127.0.0.1:1"]
    program = f"""
import sys; sys.argv = {words}
from headwater.cli import main
from pathlib import Path
from headwater.pipelines.loader import load, read
main()
load(read([Path({str(file)!r})]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"{file}:2: DeprecationWarning: headwater.processing.total is now" in ran.stderr
    assert "headwater.processing.sum; the old name goes with the next release" in ran.stderr


def test_headwater_alone_loads_nothing_heavy():
    program = (
        "import sys, headwater; dir(headwater); headwater.views; headwater.processing; "
        "headwater.edges; headwater.testing; headwater.events; "
        "print(sorted({*sys.modules} & {'pyspark', 'pyarrow', 'numpy', 'pytest', 'fastapi', "
        "'confluent_kafka', 'msgspec'}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr
