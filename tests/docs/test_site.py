"""The site is built strictly, holds every page, and asks nothing of the internet."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import publish
from tests.compat.missing import skip_or_fail
from tests.docs.pages import PAGES, ROOT

_RESOURCE = re.compile(
    r"<(?:script|link|img|iframe|source|use|object|video|audio)\b[^>]*?\b(?:src|href|srcset|data)="
    r"[\"']?((?:https?:)?//[^\"'\s>]+)"
)
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("zensical") is None:
        if sys.version_info < (3, 11, 5):
            pytest.skip("the site cannot be built here: zensical needs Python 3.11.5 or newer")
        skip_or_fail("the site cannot run here: zensical is missing; make setup installs it")
    folder = tmp_path_factory.mktemp("site")
    publish.publish(folder / "site", folder / "build")
    return folder / "site"


def test_every_page_of_the_documents_is_in_the_site(site: Path):
    names = publish.places()
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} <= set(names)
    missing = [name for name in names.values() if not (site / name).with_suffix(".html").exists()]
    assert missing == []


def test_no_page_asks_another_host_for_anything(site: Path):
    asked = {
        (page.name, found)
        for page in site.rglob("*.html")
        for found in _RESOURCE.findall(page.read_text(encoding="utf-8"))
    } | {
        (style.name, found)
        for style in [*site.rglob("*.css"), *site.rglob("*.svg")]
        for found in _IN_STYLES.findall(style.read_text(encoding="utf-8"))
    }
    assert asked == set()


def test_marks_of_fences_do_not_reach_the_site(site: Path):
    for page in site.rglob("*.html"):
        assert not re.search(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE), page.name


def test_a_broken_link_fails_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    page.write_text("[gone](gone.md)")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    with pytest.raises(publish.Broken, match=r"page.md links to gone.md, which does not exist"):
        publish.copied(page, "page.md", {})


def test_a_page_that_the_index_leaves_out_fails_the_site():
    names = publish.places() | {ROOT / "docs" / "new.md": "new.md"}
    with pytest.raises(publish.Broken, match=r"in no section of docs/index.md: .*new.md"):
        publish.navigation(names)


def test_a_link_to_a_file_that_is_no_page_is_plain_words():
    names = {ROOT / "docs" / "a.md": "a.md", ROOT / "ARCHITECTURE.md": "architecture.md"}
    text = "[code](../Makefile), [how](../ARCHITECTURE.md#rings), [out](https://kafka.apache.org)"
    link = publish._LINK.sub(
        lambda found: publish._link(found, ROOT / "docs" / "a.md", "a.md", names), text
    )
    assert link == "code, [how](architecture.md#rings), [out](https://kafka.apache.org)"
