"""The end of a run: ratios for people, and a file for programs."""

from __future__ import annotations

import json
from pathlib import Path

from bench.spark.results import Results
from bench.views.measure import HEADWATER

Machine = dict[str, str | float]


def show(machine: Machine, results: Results) -> None:
    print(
        f"\n{machine['date']}; {machine['cores']:.0f} cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB; load before {machine['load_before']}"
    )
    for scenario, contestants in results.values.items():
        print(f"\n{scenario}")
        ours = results.median(scenario, HEADWATER, "per_s")
        for name in contestants:
            rate = results.median(scenario, name, "per_s")
            seconds = results.median(scenario, name, "seconds")
            line = f"  {name:32}{rate or 0:12,.0f} rows/s"
            if seconds is not None:
                line += f"{seconds:9.1f} s"
            elif ours and rate and name != HEADWATER:
                line += f"   headwater is {ours / rate:.1f}x"
            print(line)


def save(path: Path, machine: Machine, plan: dict[str, object], results: Results) -> None:
    document = {"machine": machine, "plan": plan, "measurements": results.as_json()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
