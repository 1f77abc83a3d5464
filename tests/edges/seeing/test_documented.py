"""Every metric is on the page, and every metric on the page exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import chain
from pathlib import Path

import headwater.edges
from headwater.browse.health import BrokerHealth
from headwater.edges import counts, families

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


def test_the_page_names_every_metric_and_no_other():
    for module in pkgutil.walk_packages(headwater.edges.__path__, "headwater.edges."):
        importlib.import_module(module.name)
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in chain(
            counts.REGISTRY.collect(),
            families.of_topics([]),
            families.of_groups([]),
            families.of_views([]),
            families.of_captures([]),
            families.of_services({}),
            families.of_looks({}),
            families.of_broker(BrokerHealth()),
        )
    }
    named = set(re.findall(r"`(headwater_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert found - named == set(), "docs/monitoring.md lacks these"
    assert named - found == set(), "docs/monitoring.md names what there is not"
