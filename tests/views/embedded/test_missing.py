"""A target whose package is not installed says which one, and how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys

sys.modules[sys.argv[1]] = None  # as if it were not installed
from headwater.errors import HeadwaterError
from headwater.views.targets.registry import target_for
from headwater.views.targets.contract import Shape

try:
    target_for(sys.argv[2], Shape("v", None, ("id",)))
except HeadwaterError as error:
    print(error, error.hint, sep="\\n")
"""


@pytest.mark.parametrize(
    ("package", "to", "extra"),
    [
        ("duckdb", "duckdb:x", "warehouse"),
        ("deltalake", "delta:x", "warehouse"),
        ("redis", "redis://x", "redis"),
        ("tantivy", "search:x", "search"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_has_it(package: str, to: str, extra: str):
    command = [sys.executable, "-c", PROGRAM, package, to]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    scheme = to.partition(":")[0]
    assert done.stdout.splitlines() == [
        f"{scheme}: needs the package {package}, which is not installed",
        f"pip install 'headwater[{extra}]'",
    ]
