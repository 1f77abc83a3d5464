"""The files for Prometheus and Grafana name metrics that there are, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from headwater.edges.monitoring import FILES, contents

DOCS = Path(__file__).parents[3] / "docs" / "monitoring.md"
NAME = re.compile(r"\b(?:headwater|kafka|kminion)_[a-z_]+\b")


def told() -> set[str]:
    """Every metric of docs/monitoring.md, which another test compares with what is served."""
    return set(NAME.findall(DOCS.read_text()))


def expressions() -> list[tuple[str, str]]:
    rules = yaml.safe_load(contents("prometheus-rules.yml"))
    found = [(each["alert"], each["expr"]) for g in rules["groups"] for each in g["rules"]]
    board = json.loads(contents("grafana-headwater.json"))
    found += [
        (panel["title"], target["expr"])
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
    return found + [
        (each["name"], each["definition"])
        for each in board["templating"]["list"]
        if "definition" in each
    ]


@pytest.mark.parametrize(("title", "expression"), expressions())
def test_an_expression_asks_for_metrics_that_there_are(title: str, expression: str):
    asked = set(NAME.findall(expression)) | set(re.findall(r"\bprocess_[a-z_]+", expression))
    assert asked, title
    assert asked <= told() | {"process_resident_memory_bytes"}


def test_alerts_have_names_of_their_own_and_say_what_is_wrong():
    rules = yaml.safe_load(contents("prometheus-rules.yml"))
    alerts = [each for group in rules["groups"] for each in group["rules"]]
    assert len({each["alert"] for each in alerts}) == len(alerts) > 10
    for each in alerts:
        assert each["annotations"]["summary"]
        assert each["labels"]["severity"] in ("warning", "critical")


def test_panels_lie_beside_each_other_and_have_ids_of_their_own():
    panels = json.loads(contents("grafana-headwater.json"))["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for at in (each["gridPos"] for each in panels):
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_prometheus_scrapes_both_paths_and_reads_the_rules_beside_it():
    config = yaml.safe_load(contents("prometheus.yml"))
    assert config["rule_files"] == ["prometheus-rules.yml"]
    paths = {each.get("metrics_path", "/metrics") for each in config["scrape_configs"]}
    assert paths == {"/metrics", "/metrics/kafka"}
    assert set(FILES) == {"prometheus.yml", "prometheus-rules.yml", "grafana-headwater.json"}
