"""What was measured, by scenario, contestant and metric, and the medians over the rounds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping

from bench.broker.contestants import Contestant

Series = dict[str, list[float]]


class Results:
    """`scenario → contestant → metric → one value per round`; filled by the measurements."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Series]] = defaultdict(lambda: defaultdict(dict))

    def add(self, scenario: str, contestant: Contestant, metrics: Mapping[str, float]) -> None:
        series = self.values[scenario][contestant.name]
        for metric, value in metrics.items():
            series.setdefault(metric, []).append(value)

    def rounds(self, scenario: str, contestant: Contestant, metric: str) -> list[float]:
        """All values; empty where it was not measured."""
        if scenario not in self.values:
            return []
        return self.values[scenario].get(contestant.name, {}).get(metric, [])

    def median(self, scenario: str, contestant: Contestant, metric: str) -> float | None:
        values = self.rounds(scenario, contestant, metric)
        return statistics.median(values) if values else None

    def as_json(self) -> dict[str, dict[str, Series]]:
        """Five significant digits: more would only be noise in a file that is kept."""
        return {
            scenario: {
                name: {
                    metric: [float(f"{v:.5g}") for v in values] for metric, values in series.items()
                }
                for name, series in contestants.items()
            }
            for scenario, contestants in self.values.items()
        }
