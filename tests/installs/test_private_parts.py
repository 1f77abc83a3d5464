"""Private parts of a package may be gone in its next version: where we use them, pip must not bring it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]


def private_imports() -> Iterator[str]:
    """Other people's modules that have an underscore before their name."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield from (f"{node.module}.{each.name}" for each in node.names)
            elif isinstance(node, ast.Import):
                yield from (each.name for each in node.names)


def owners() -> set[str]:
    """The distributions of which private parts are imported."""
    found = packages_distributions()
    private = [each for each in private_imports() if re.search(r"\._(?!_)", each)]
    tops = {each.partition(".")[0] for each in private} - {"headwater"}
    return {name for top in tops for name in found.get(top, ())}


def test_whose_private_parts_are_used_is_pinned_below_its_next_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for some in project["optional-dependencies"].values() for each in some]
    asked = [*project["dependencies"], *extras]
    used = owners()
    assert "kio" in used
    for name in used:
        of_it = [each for each in asked if re.match(rf"{re.escape(name)}\b(?!-)", each)]
        assert of_it, f"{name} is imported and not asked for"
        assert [each for each in of_it if "<" not in each] == []
