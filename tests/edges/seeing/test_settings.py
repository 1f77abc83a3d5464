"""[edges.tracing]: every mistake is told at once."""

from __future__ import annotations

import pytest

from headwater.edges.config import read as read_edges
from headwater.edges.tracing.settings import check, read

GOOD = {"otlp": "http://127.0.0.1:4318", "ratio": 0.01, "topics": ["shop.*"]}


def test_a_good_section_has_no_complaints(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTLP_TOKEN", "secret")
    section = {**GOOD, "headers": {"authorization": "Bearer ${OTLP_TOKEN}"}}
    assert check("", section) == []
    found = read(section)
    assert found.headers == {"authorization": "Bearer secret"}
    assert "secret" not in repr(found)
    assert found.follows("shop.orders")
    assert not found.follows("other")
    assert not read({**GOOD, "topics": ["*"]}).follows("__consumer_offsets")


def test_every_mistake_is_told():
    said = check(
        "",
        {
            "otlp": "collector:4318",
            "ratio": 2,
            "topics": "shop",
            "headers": [1],
            "patience_seconds": 0,
            "service": "",
            "sampling": 1,
        },
    )
    assert len(said) == 7
    text = "\n".join(said)
    for name in ("otlp", "ratio", "topics", "headers", "patience_seconds", "service", "sampling"):
        assert name in text
    assert check("", {}) == [
        'otlp is missing: say where spans go, as in otlp = "http://127.0.0.1:4318"'
    ]
    assert check("", 17) == ["[edges.tracing] is a section with lines of its own"]


def test_the_section_is_part_of_the_edges():
    edges, mistakes = read_edges({"tracing": GOOD})
    assert mistakes == []
    assert edges.tracing == GOOD
    _, mistakes = read_edges({"tracing": {"otlp": 1}})
    assert [where for where, _ in mistakes] == ["edges.tracing"]
