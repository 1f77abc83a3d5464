"""The examples of the documents are tests themselves: they run here, on the session that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.testing.rehearsal import Rehearsal
from tests.docs.pages import ROOT, snippets

PAGES = ("testing.md", "time.md", "windows.md", "analytics.md")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_pass(page: str, headwater_test: Rehearsal) -> None:
    path = ROOT / "docs" / page
    code = ""
    for snippet in snippets(path):
        if snippet.language == "python":
            code += "\n" * (snippet.line - 1 - code.count("\n")) + snippet.text
    found: dict[str, Any] = {"__name__": Path(page).stem}
    exec(compile(code, str(path), "exec"), found)
    tests = [each for name, each in found.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0](headwater_test)
