"""docs/bridges.md names every scheme and every setting, and its sections are ones that are taken."""

from __future__ import annotations

import tomllib

from headwater.edges.bridges import config
from headwater.edges.config import read
from tests.docs.pages import ROOT, snippets

PAGE = ROOT / "docs" / "bridges.md"
ELSEWHERE = ("udp", "statsd", "multicast")
"""docs/devices.md"""


def test_every_scheme_and_setting_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for schemes, found in (
        (config.INBOUND, config.inbound),
        (config.OUTBOUND, config.outbound),
    ):
        for scheme in schemes:
            assert f"`{scheme}://`" in text, scheme
            if scheme not in ELSEWHERE:
                options = found(f"{scheme}://x").OPTIONS
                assert [name for name in options if f"`{name}`" not in text] == []


def test_every_section_on_the_page_is_taken():
    shown = [tomllib.loads(each.text) for each in snippets(PAGE) if each.language == "toml"]
    sections = [document["edges"] for document in shown if "edges" in document]
    assert len(sections) == 2
    for section in sections:
        assert read(section)[1] == []
