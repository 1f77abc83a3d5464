"""The documents are true: links lead somewhere, generated pages are current, nothing is left out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from headwater import __version__
from headwater.cli.app import COMMANDS
from tests.docs.pages import PAGES, ROOT, links, name, snippets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_to_a_file_leads_somewhere(page: Path):
    inside = [link for link in links(page) if not link.startswith(("http:", "https:", "#"))]
    broken = [link for link in inside if not (page.parent / link.split("#")[0]).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_fences_are_marked_with_words_that_mean_something(page: Path):
    for snippet in snippets(page):
        assert snippet.marks <= {"run", "no-run"}, f"{name(page)}:{snippet.line}"


def test_the_generated_pages_are_current():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for path, text in generate.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: make docs"


def test_every_command_is_in_the_reference():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"### headwater {command}\n" in page


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    pages = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert pages
    assert [page for page in pages if page not in index] == []
    assert [int(page[:4]) for page in pages] == list(range(1, len(pages) + 1))


def test_the_changelog_has_a_section_for_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(__version__)}\b", changelog, re.MULTILINE)


def test_make_prints_every_target_that_a_person_may_want():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target


def test_no_pin_names_a_host_or_a_path():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+", line), line
