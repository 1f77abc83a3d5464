"""The public names of headwater, and where programs use names of it: for the tests of both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.docs.pages import PAGES, Snippet, name, snippets

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "headwater",
    "headwater.views",
    "headwater.events",
    "headwater.processing",
    "headwater.testing",
    "headwater.edges",
)
"""What these offer in `__all__` is public."""
FOR_DEVELOPERS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions/", "src/")
"""Pages about the inside."""
PROGRAMS = (
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "src/headwater/project/template").rglob("*.py")),
    ROOT / "src/headwater/project/demo/shop/pipelines.py",
)
"""Written as users write."""

_HERE_DOCUMENT = re.compile(r"<<'?PYTHON'?\n(.*?)^PYTHON$", re.MULTILINE | re.DOTALL)


def public_modules() -> dict[str, ModuleType]:
    """The packages, and the modules that they offer as names of their own (`processing.joins`)."""
    found = {each: import_module(each) for each in PACKAGES}
    for package, module in list(found.items()):
        for each in module.__all__:
            value = getattr(module, each)
            if isinstance(value, ModuleType):
                found[f"{package}.{each}"] = value
    return found


def sources() -> Iterator[tuple[str, str]]:
    """Where a program stands, and its text."""
    for program in PROGRAMS:
        yield str(program.relative_to(ROOT)), program.read_text(encoding="utf-8")
    for page in PAGES:
        if not name(page).startswith(FOR_DEVELOPERS):
            yield from _of_a_page(name(page), snippets(page))


def _of_a_page(page: str, found: list[Snippet]) -> Iterator[tuple[str, str]]:
    """Its Python as one program, as it is one when it is run; and each that a shell snippet writes."""
    python = [each.text for each in found if each.language == "python"]
    yield page, "\n".join(python).replace("…", "...")
    for each in found:
        for inner in _HERE_DOCUMENT.findall(each.text):
            yield f"{page}:{each.line}", inner


def used(text: str) -> Iterator[str]:
    """Every name of headwater that a program uses, in full: `headwater.events.Saga`."""
    bound: dict[str, str] = {}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] == "headwater":
                    bound[each.asname or "headwater"] = each.name if each.asname else "headwater"
                    yield each.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headwater":
            for each in node.names:
                bound[each.asname or each.name] = f"{node.module}.{each.name}"
                yield f"{node.module}.{each.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = _chain(node)
            if chain and chain[0] in bound:
                yield ".".join([bound[chain[0]], *chain[1:]])


def _chain(node: ast.expr) -> list[str] | None:
    """`hw.events.Saga` as its words; None where it does not begin with a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)) is not None:
        return [*before, node.attr]
    return None
