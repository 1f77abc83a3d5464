"""The end of a run: ratios for people, and a file for programs."""

from __future__ import annotations

import json
from pathlib import Path

from bench.spark.results import CONNECTOR, FILES, FILES_KAFKA, NETWORK, NETWORK_KAFKA, Results

TARGETS = {FILES: 5.0, FILES_KAFKA: 5.0, NETWORK: 3.0, NETWORK_KAFKA: 3.0}
Machine = dict[str, str | float]


def show(machine: Machine, results: Results) -> None:
    print(
        f"\n{machine['date']}; {machine['cores']:.0f} cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB; load before {machine['load_before']}; {machine['java']}"
    )
    for scenario in results.values:
        _show(scenario, results)


def _show(scenario: str, results: Results) -> None:
    print(f"\n{scenario}")
    metrics = list(next(iter(results.values[scenario].values())))
    for name in results.values[scenario]:
        cells = []
        for metric in metrics:
            mine = results.median(scenario, name, metric)
            base = results.median(scenario, CONNECTOR, metric)
            if mine is None:
                continue
            cells.append(_cell(metric, mine, base))
        target = TARGETS.get(name) if metrics[0] == "per_s" else None
        verdict = _verdict(scenario, name, target, results)
        print(f"  {name:28}" + "   ".join(cells) + verdict)


def _cell(metric: str, mine: float, base: float | None) -> str:
    figure = f"{mine / 1e6:6.2f} M/s" if metric == "per_s" else f"{mine:8.2f} {metric}"
    if not base or metric == "batches":
        return figure
    ratio = mine / base if metric == "per_s" else base / mine
    return f"{figure} ({ratio:.2f}x)"


def _verdict(scenario: str, name: str, target: float | None, results: Results) -> str:
    if target is None:
        return ""
    mine, base = (results.median(scenario, each, "per_s") for each in (name, CONNECTOR))
    if mine is None or not base:
        return ""
    return f"   target {target:.0f}x: {'met' if mine / base >= target else 'missed'}"


def save(
    path: Path, machine: Machine, plan: dict[str, object], results: Results, *, add: bool = False
) -> None:
    """`add`: to what the file has of other scenarios, so that a long run can be made in parts."""
    measured = results.as_json()
    if add and path.exists():
        measured = {**json.loads(path.read_text())["measurements"], **measured}
    document = {"machine": machine, "plan": plan, "measurements": measured}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
