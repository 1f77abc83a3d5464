"""docs/settings.md says what the tables say."""

from __future__ import annotations

from pathlib import Path

from headwater.broker.settings import definitions, topic_definitions
from headwater.broker.settings.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_setting_has_its_line():
    page = reference()
    for definition in (*definitions(), *topic_definitions()):
        assert f"\n| `{definition.name}` | {definition.kind.name.lower()} |" in page
        assert definition.doc.endswith("."), definition.name
