"""What was measured: scenario → contestant → metric → one value per round."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping

Series = dict[str, list[float]]
CONNECTOR = "Spark's connector, Kafka"
FILES = "files of headwater"
FILES_KAFKA = "files of Kafka"
NETWORK = "network, headwater"
NETWORK_KAFKA = "network, Kafka"


class Results:
    """Filled by the measurements, read by the report."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Series]] = defaultdict(lambda: defaultdict(dict))

    def add(self, scenario: str, contestant: str, metrics: Mapping[str, float]) -> None:
        series = self.values[scenario][contestant]
        for metric, value in metrics.items():
            series.setdefault(metric, []).append(value)

    def median(self, scenario: str, contestant: str, metric: str) -> float | None:
        values = self.values.get(scenario, {}).get(contestant, {}).get(metric, [])
        return statistics.median(values) if values else None

    def as_json(self) -> dict[str, dict[str, Series]]:
        return {
            scenario: {
                name: {metric: [float(f"{v:.5g}") for v in vs] for metric, vs in series.items()}
                for name, series in contestants.items()
            }
            for scenario, contestants in self.values.items()
        }
