"""The documents are true: links lead somewhere, generated pages are current, nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.figures import page as figures
from bench.nexmark import page as nexmark
from docs import generate, pictures
from headwater import __version__
from headwater.cli.app import COMMANDS
from tests.docs.pages import PAGES, ROOT, links, name, runs, snippets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_to_a_file_leads_somewhere(page: Path):
    inside = [link for link in links(page) if not link.startswith(("http:", "https:", "#"))]
    broken = [link for link in inside if not (page.parent / link.split("#")[0]).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_fences_are_marked_with_words_that_mean_something(page: Path):
    for snippet in snippets(page):
        assert snippet.marks <= {"run", "no-run"}, f"{name(page)}:{snippet.line}"


NOTHING_RUNS = {
    "CONTRIBUTING.md": "make's own targets",
    "docs/administration.md": "tests/compat/test_java_admin_tools.py",
    "docs/analytics.md": "tests/processing/windows/test_pages.py",
    "docs/checking.md": "tests/broker/inspection/test_commands.py",
    "docs/deletion.md": "tests/broker/test_excision.py",
    "docs/ecosystem.md": "tests/ecosystem/test_streams.py",
    "docs/figures.md": "make's own targets",
    "docs/install.md": "tests/installs/test_fresh.py",
    "docs/moving-to-kafka.md": "tests/project/test_promote.py",
    "docs/nexmark.md": "tests/processing/nexmark/test_queries.py",
    "docs/pipelines.md": "tests/spark/run/test_page.py",
    "docs/processing.md": "the pages that it leads to",
    "docs/projects.md": "docs/start.md",
    "docs/schemas-moving.md": "tests/schemas/test_commands.py",
    "docs/time.md": "tests/processing/windows/test_pages.py",
    "docs/windows.md": "tests/processing/windows/test_pages.py",
}
"""Pages with code of which tests/docs/test_snippets.py runs nothing, and what shows it instead."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_with_code_is_run_or_says_where_it_is(page: Path):
    code = [snippet for snippet in snippets(page) if snippet.language in ("python", "bash")]
    left_out = bool(code) and not any(map(runs, code))
    assert left_out == (name(page) in NOTHING_RUNS), (
        "mark a snippet with `run`, or name in NOTHING_RUNS what shows that the page is true"
    )


def test_what_shows_a_page_elsewhere_exists():
    paths = [where for where in NOTHING_RUNS.values() if "/" in where]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_generated_pages_are_current():
    for path, text in generate.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: make docs"


def test_the_figures_are_those_of_the_results():
    written = figures.files()
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: python -m bench.figures"
    assert {*figures.PLOTS.glob("*.svg")} == {path for path in written if path.suffix == ".svg"}


def test_the_page_on_nexmark_is_made_of_its_results():
    assert nexmark.PAGE.read_text(encoding="utf-8") == nexmark.text(), (
        "python -m bench.nexmark.page"
    )


def test_the_pictures_are_what_their_script_draws():
    for path, text in pictures.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: python -m docs.pictures"


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


def test_every_guarantee_names_tests_that_exist():
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/.]+)`", page))
    assert len(named) > 30
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    promises = [
        line
        for table in re.findall(
            r"^\| promise \| shown by \|\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE
        )
        for line in table.splitlines()
    ]
    assert len(promises) > 30
    assert [line for line in promises if "`tests/" not in line] == []
