"""Tests of `make test` that start streams of Spark's, folder by folder. Called by `measures`.

Such a test takes seconds of every core, one without Spark milliseconds; so their number may only fall. One
more is right where another asks less, goes to `make soak`, or shares a stream that runs anyway.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FIXTURES = frozenset({"headwater_test", "desk"})
"""By which a test gets its queries."""
SOAK = "pytest.mark.soak"


def counted(root: Path) -> Iterator[tuple[str, int]]:
    found: Counter[str] = Counter()
    for path in (root / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if any(fixture in text for fixture in FIXTURES):
            found[path.parent.relative_to(root).as_posix()] += _streams(ast.parse(text))
    yield from sorted((folder, number) for folder, number in found.items() if number)


def _streams(module: ast.Module) -> int:
    marks = [each.value for each in module.body if isinstance(each, ast.Assign) and _names(each)]
    if any(SOAK in ast.unparse(each) for each in marks):
        return 0
    tests = (each for each in module.body if isinstance(each, ast.FunctionDef))
    return sum(test.name.startswith("test_") and _starts_one(test) for test in tests)


def _names(assignment: ast.Assign) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == "pytestmark" for each in assignment.targets
    )


def _starts_one(test: ast.FunctionDef) -> bool:
    is_long = any(ast.unparse(each) == SOAK for each in test.decorator_list)
    return not is_long and any(each.arg in FIXTURES for each in test.args.args)
