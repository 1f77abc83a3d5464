"""One broker, and one registry as a process of its own, for the folder; each test has its own subjects."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.testing import broker


@contextmanager
def serving(
    bootstrap: str, *words: str, folder: Path | None = None, files: int = 0, **environment: str
) -> Iterator[str]:
    """The address of a registry that runs until the block ends."""
    with started(bootstrap, *words, folder=folder, files=files, **environment) as (_, url):
        yield url


@contextmanager
def started(
    bootstrap: str, *words: str, folder: Path | None = None, files: int = 0, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`files`: how many it may have open."""
    import os

    command = [sys.executable, "-m", "headwater", "schemas", "serve", "--bootstrap", bootstrap]
    if "--listen" not in words:
        command += ["--listen", "127.0.0.1:0"]
    if files:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    process = subprocess.Popen(
        [*command, *words],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder or "/",
        env=os.environ | environment,
    )
    try:
        assert process.stderr is not None
        found, said = None, ""
        while found is None:
            line = process.stderr.readline()
            assert line, said  # it has ended
            said, found = said + line, re.search(r"https?://[^/\s]+", line)
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    with broker() as found:
        yield found.bootstrap


@pytest.fixture(scope="session")
def registry(kafka: str) -> Iterator[str]:
    with serving(kafka) as url:
        yield url
