"""The command as a user runs it: a process of its own, with its words, output and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Headwater = Callable[..., Ran]


@pytest.fixture
def headwater(tmp_path: Path) -> Headwater:
    """Run `headwater WORDS` in an empty folder; `env` adds to the environment."""

    def run(*words: str, env: dict[str, str] | None = None, timeout: float = 100) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "headwater", *words],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
