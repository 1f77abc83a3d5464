"""docs/settings.md says what the tables say."""

from __future__ import annotations

from pathlib import Path

from headwater.broker.settings import broker_definitions, topic_definitions
from headwater.broker.settings.group import GROUP
from headwater.broker.settings.group_types import ORDERED
from headwater.broker.settings.reference import reference
from headwater.broker.settings.topic import TOPIC

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "settings.md"
READ_WITH_OTHERS = {
    "broker.id",  # as node.id
    "ssl.keystore.type",  # PEM is all they may be
    "ssl.truststore.type",
    *(low for low, high in ORDERED if low.split(".")[2] == "min"),  # bounds of what groups may set
    *(high for low, high in ORDERED if high.split(".")[2] == "max"),
}
"""Looked at within `settings` only. May only become fewer: read it, or let its definition say
`effect=False`."""


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_setting_has_its_line():
    page = reference()
    for definition in (*broker_definitions(), *topic_definitions()):
        assert f"\n| `{definition.name}` | {definition.kind.name.lower()} |" in page
        assert definition.doc.endswith("."), definition.name


def test_a_setting_that_nothing_reads_is_marked_as_without_effect():
    source = ROOT / "src" / "headwater"
    settings = source / "broker" / "settings"
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in source.rglob("*.py")
        if settings not in path.parents and path.parent.name != "testing"
    )
    tables = (*TOPIC.values(), *GROUP.values())
    read_with_topics = {name for each in tables for name, _ in each.synonyms}
    unread = {
        each.name
        for each in broker_definitions()
        if each.effect and each.name not in read_with_topics and f'"{each.name}"' not in text
    }
    assert unread == READ_WITH_OTHERS
