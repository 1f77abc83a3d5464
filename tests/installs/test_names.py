"""A package's own function is never hidden by a module of its name, whichever is imported first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "headwater"
PACKAGES = sorted(each.parent for each in SOURCES.rglob("__init__.py"))


@pytest.mark.parametrize(
    "package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCES.parent))
)
def test_no_module_is_called_like_a_function_of_its_package(package):
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    functions = {
        each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)
    }
    modules = {each.stem for each in package.glob("*.py")}
    modules |= {each.name for each in package.iterdir() if (each / "__init__.py").exists()}
    assert functions & modules == set()
