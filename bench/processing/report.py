"""The end of a run: ratios for people, and a file for programs."""

from __future__ import annotations

import json
from pathlib import Path

from bench.processing.ours import NAME
from bench.spark.results import Results

Machine = dict[str, str | float]


def show(machine: Machine, versions: dict[str, str], results: Results, left_out: list[str]) -> None:
    print(
        f"\n{machine['date']}; {machine['cores']:.0f} cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB; load before {machine['load_before']}"
    )
    print(", ".join(f"{name} {said}" for name, said in versions.items()))
    for scenario, contestants in results.values.items():
        print(f"\n{scenario}")
        ours = results.median(scenario, NAME, "per_s")
        for name in contestants:
            print(_line(results, scenario, name, ours))
    for sentence in left_out:
        print(f"left out: {sentence}")


def _line(results: Results, scenario: str, name: str, ours: float | None) -> str:
    rate = results.median(scenario, name, "per_s")
    line = f"  {name:14}{rate or 0:12,.0f} rows/s"
    for metric, word in (("state_mb", "state"), ("resident_mb", "resident")):
        value = results.median(scenario, name, metric)
        line += f"   {word} {value:8,.1f} MB" if value is not None else " " * (15 + len(word))
    if ours and rate and name != NAME:
        line += f"   headwater is {ours / rate:.2g}x"
    return line


def save(
    path: Path,
    machine: Machine,
    plan: dict[str, object],
    results: Results,
    left_out: list[str],
) -> None:
    document = {
        "machine": machine,
        "plan": plan,
        "measurements": results.as_json(),
        "left_out": left_out,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
