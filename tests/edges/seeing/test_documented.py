"""Every metric is on the page, and every metric on the page exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import chain
from pathlib import Path

import headwater.edges
from headwater.browse.health import BrokerHealth
from headwater.edges import counts, prometheus

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


def test_the_page_names_every_metric_and_no_other():
    for module in pkgutil.walk_packages(headwater.edges.__path__, "headwater.edges."):
        importlib.import_module(module.name)
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in chain(
            counts.REGISTRY.collect(),
            prometheus.of_topics([]),
            prometheus.of_groups([]),
            prometheus.of_views([]),
            prometheus.of_captures([]),
            prometheus.of_services({}),
            prometheus.of_looks({}),
            prometheus.of_broker(BrokerHealth()),
        )
    }
    named = set(re.findall(r"`(headwater_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert found - named == set(), "docs/monitoring.md lacks these"
    assert named - found == set(), "docs/monitoring.md names what there is not"
