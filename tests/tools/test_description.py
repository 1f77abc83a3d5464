"""On a package index the README has no link that leads nowhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.description import described, of_project

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TARGET = re.compile(r"\]\(([^()\s]+)\)")


def test_no_link_of_the_description_is_relative() -> None:
    text = of_project(ROOT, SETTINGS["project"].get("urls", {}))["text"]
    assert [each for each in TARGET.findall(text) if not each.startswith("https://")] == []
    assert "docs/start.md: five minutes" in text or "/blob/main/docs/start.md" in text


def test_with_a_repository_the_links_lead_there() -> None:
    given = "[a](docs/a.md#x), ![p](p.png), [b](https://b.example) and [c](#c) `[d](e)`"
    assert described("[a](docs/a.md#x), ![p](p.png)", "https://h.example/r/") == (
        "[a](https://h.example/r/blob/main/docs/a.md#x), ![p](https://h.example/r/blob/main/p.png)"
    )
    assert described(given, None).startswith("a, p, [b](https://b.example) and [c](#c)")


def test_packages_are_made_with_it() -> None:
    assert SETTINGS["project"]["dynamic"] == ["readme"]
    assert (
        SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"] == "tools/description.py"
    )
    assert "tools" in SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
