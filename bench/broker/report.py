"""The end of a run: tables for people (rich on a terminal, else aligned text) and a file for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.broker.plan import Plan
from bench.broker.results import Results
from bench.broker.rows import COMPARISONS, Row, rows

_HEADINGS = ("", "headwater", "Kafka", "ratio", "target", "", "bound by")
_COLOURS = {"met": "green", "level": "yellow", "missed": "red", "": ""}
Machine = dict[str, str | float]


def show(machine: Machine, results: Results, quick: bool) -> None:
    print("\n" + "\n".join(_about(machine, results)))
    if quick:
        print("A quick run: Kafka's JVM has hardly warmed up, so its CPU figures are too high.")
    for comparison in COMPARISONS:
        found = rows(results, comparison)
        if not found:
            continue
        if sys.stdout.isatty():
            _show_rich(comparison.title, found)
        else:
            _show_plain(comparison.title, found)
        reached = [row.verdict for row in found if row.target]
        counts = {verdict: reached.count(verdict) for verdict in ("met", "level", "missed")}
        print("  " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    print("\nlevel: short of the target by less than the rounds differ among themselves.")


def save(path: Path, machine: Machine, plan: Plan, results: Results) -> None:
    sizes = {name: value for name, value in dataclasses.asdict(plan).items() if name != "home"}
    document = {
        "machine": machine,
        "plan": sizes,
        "comparisons": [
            {"title": each.title, "rows": [_rounded(row) for row in rows(results, each)]}
            for each in COMPARISONS
        ],
        "measurements": results.as_json(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _rounded(row: Row) -> dict[str, object]:
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in dataclasses.asdict(row).items()
    }


def _about(machine: Machine, results: Results) -> list[str]:
    lines = [
        f"{machine['date']}; {machine['cores']:.0f} cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB, {machine['file_system']}; fdatasync p50 "
        f"{machine['fdatasync_1kb_p50_ms']} ms after 1 KB, {machine['fdatasync_1mb_p50_ms']} ms after 1 MB",
        f"headwater {machine['headwater']} (Python {machine['python']}, uvloop {machine['uvloop']}); "
        f"Apache Kafka {machine['kafka']} (heap {machine['kafka_heap']}, {machine['java']}); "
        f"confluent-kafka {machine['confluent_kafka']}",
    ]
    other = _other_cores(results)
    if other > 0.3:
        lines.append(
            f"Other programs used {other:.1f} of {os.cpu_count()} cores meanwhile: "
            "rates are too low and latencies too high; CPU seconds suffer least."
        )
    return lines


def _other_cores(results: Results) -> float:
    values = [
        value
        for contestants in results.values.values()
        for series in contestants.values()
        for value in series.get("other_cores", [])
    ]
    return statistics.median(values) if values else 0.0


def _cells(row: Row) -> tuple[str, ...]:
    figures = (_figure(row.headwater, row.unit), _figure(row.kafka, row.unit))
    return (row.label, *figures, f"{row.ratio:.2f}", row.target, row.verdict, row.bound)


def _figure(value: float, unit: str) -> str:
    if unit == "records/s":
        return f"{value / 1e6:.2f} M/s"
    if unit == "s per million":
        return f"{value:.3f} s/M"
    if unit == "MB":
        return f"{value:.0f} MB"
    return f"{value:.2f} {unit}".rstrip()


def _show_plain(title: str, found: list[Row]) -> None:
    table = [_HEADINGS, *(_cells(row) for row in found)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print(f"\n{title}")
    for line in table:
        padded = [
            text.rjust(width) if 0 < place < 4 else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  " + "  ".join(padded).rstrip())


def _show_rich(title: str, found: list[Row]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if 0 < place < 4 else "left")
    for row in found:
        table.add_row(*_cells(row), style=_COLOURS[row.verdict])
    Console().print(table)
