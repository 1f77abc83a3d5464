"""The command as a user runs it: a process of its own, with its words, output and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import fork_server


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
        given = {"COLUMNS": "80", "NO_COLOR": "1", **(env or {})}
        done = fork_server.headwater(*words, cwd=tmp_path, env=given, timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
