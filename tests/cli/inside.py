"""The command in this process: as much of it as a process of its own would run, in milliseconds."""

from __future__ import annotations

import io
import sys

import pytest

from headwater.cli import main
from tests.cli.conftest import Ran


class Inside:
    """`run(*words)` with what stdin holds; stdout is no terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str, stdin: bytes = b"") -> Ran:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        code = main(list(words))
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)
