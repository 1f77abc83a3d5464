"""Results files to chapters; one function per form of file. Nothing is measured or guessed here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.broker.plan import quick
from bench.figures.model import Bar, Chapter, Figure, Group
from bench.freshness import goals

RESULTS = Path(__file__).parents[1] / "results"
UNITS = {
    "records/s": ("throughput", "records per second", True),
    "s per million": ("cpu", "seconds of the broker's CPU per million records", False),
    "ms": ("latency", "milliseconds from producing to consuming", False),
    "MB": ("memory", "megabytes of memory", False),
    "s": ("start", "seconds", False),
    "": ("growth", "ratio of rates", True),
}
METRICS = {
    "per_s": ("rate", "per second", True),
    "rows_per_s": ("rate", "changes per second", True),
    "rows_per_cpu_s": ("per-cpu", "rows per second of CPU", True),
    "cpu_s_per_million": ("cpu", "seconds of CPU per million", False),
    "seconds": ("time", "seconds", False),
    "cpu_s": ("cpu-time", "seconds of CPU", False),
    "p50_ms": ("p50", "milliseconds, half of the changes are faster", False),
    "p99_ms": ("p99", "milliseconds, 99 of 100 changes are faster", False),
    "first_s": ("first", "seconds until the first change", False),
    "peak_mb": ("memory", "megabytes of memory at most", False),
    "resident_mb": ("memory", "megabytes of memory", False),
    "state_mb": ("state", "megabytes of state", False),
    "kb_per_client": ("per-client", "kilobytes of memory per client", False),
    "lost_percent": ("lost", "percent of datagrams lost", False),
}
SIZES = {"rows", "matches", "sent_per_s"}
"""What was given or found, and tells nothing of speed."""
_MACHINE = {
    "date": "measured",
    "cores": "cores",
    "processor": "processor",
    "memory_gb": "memory, GB",
    "load_before": "load before the run",
    "file_system": "file system",
    "fdatasync_1kb_p50_ms": "fdatasync of 1 kB, ms",
    "fdatasync_1mb_p50_ms": "fdatasync of 1 MB, ms",
    "python": "Python",
    "headwater": "headwater",
    "kafka": "Apache Kafka",
    "kafka_heap": "Kafka's heap",
    "java": "Java",
    "confluent_kafka": "confluent-kafka",
    "uvloop": "uvloop",
    "spark": "Spark",
    "pyspark": "PySpark",
}


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def broker() -> Chapter:
    document = load("broker")
    figures = []
    for number_, comparison in enumerate(document["comparisons"], 1):
        for unit, (name, words, more) in UNITS.items():
            rows = [row for row in comparison["rows"] if row["unit"] == unit]
            groups = tuple(
                Group(
                    row["label"].removeprefix("broker CPU, ").removeprefix("latency, "),
                    (
                        Bar("headwater", row["headwater"], True),
                        Bar("Apache Kafka", row["kafka"], False),
                    ),
                    row["target"],
                    row["verdict"],
                    row["bound"],
                )
                for row in rows
            )
            if groups:
                short, _, detail = comparison["title"].partition(": ")
                what = "CPU" if name == "cpu" else name.capitalize()
                title = f"{what}, {short[0].lower()}{short[1:]}"
                figures.append(
                    Figure(f"broker-{number_}-{name}", title, words, more, groups, detail)
                )
    about = ["Apache Kafka and headwater took turns in one run on one machine."]
    if document["plan"] == json.loads(json.dumps(_sizes(quick(Path())))):
        about.append(
            "A `--quick` run, good for a first look and not for a claim: Kafka's JVM has hardly warmed "
            "up, so its CPU figures are too high."
        )
    return _chapter("The broker", "broker", about, document["machine"], figures)


def _sizes(plan: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(plan).items() if name != "home"}


def measured(name: str, title: str, about: list[str], ours: tuple[str, ...]) -> Chapter:
    """A file of scenario → contestant → metric → rounds. `ours`: how names of ours begin."""
    document = load(name)
    plan = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in document["plan"].items())
    figures = [
        figure
        for metric in METRICS
        if (figure := _figure(name, metric, document["measurements"], ours))
    ]
    _refuse_unknown(name, document["measurements"])
    left_out = [f"Left out: {sentence}" for sentence in document.get("left_out", [])]
    about = [*about, f"Sizes: {plan}.", *left_out]
    return _chapter(title, name, about, document["machine"], figures)


def _refuse_unknown(name: str, scenarios: Mapping[str, Any]) -> None:
    """Nothing that a file holds is left out of the page without a word."""
    found = {
        metric
        for contestants in scenarios.values()
        for values in contestants.values()
        for metric in values
    }
    if unknown := sorted(found - set(METRICS) - SIZES):
        raise ValueError(f"bench/results/{name}.json has metrics without words: {unknown}")


def _figure(
    name: str, metric: str, scenarios: Mapping[str, Any], ours: tuple[str, ...]
) -> Figure | None:
    word, unit, more = METRICS[metric]
    unit = (
        {"spark": "records ", "views": "rows "}.get(name, "") + unit if metric == "per_s" else unit
    )
    groups = []
    for label, contestants in scenarios.items():
        bars = [
            _bar(who, values[metric], who.startswith(ours))
            for who, values in contestants.items()
            if metric in values
        ]
        if bars:
            ordered = sorted(bars, key=lambda bar: (not bar.ours, bar.who))
            groups.append(Group(label, tuple(ordered)))
    title = {"cpu": "CPU", "per-cpu": "rate per CPU"}.get(word, word)
    return (
        Figure(f"{name}-{word}", f"{name.capitalize()}: {title}", unit, more, tuple(groups))
        if groups
        else None
    )


def _bar(who: str, values: Any, ours: bool) -> Bar:
    rounds = values if isinstance(values, list) else [values]
    spread = (min(rounds), max(rounds)) if len(rounds) > 1 else None
    return Bar(who, median(rounds), ours, spread)


def capture() -> Chapter:
    """A file of database → contestant → scenario → metric → figure."""
    document = load("capture")
    scenarios: dict[str, dict[str, Any]] = {}
    machine: dict[str, Any] = {}
    about = ["headwater and Debezium followed the same server into the same broker."]
    for database, run in document.items():
        machine |= {f"{database}, measured": run["date"], f"{database}, load": run["load_before"]}
        sizes = ", ".join(f"{name} {count}" for name, count in run["sizes"].items())
        about.append(f"{database}: {sizes}. " + run.get("note", ""))
        for who in ("headwater", "debezium", "debezium 5 ms"):
            for scenario, metrics in run.get(who, {}).items():
                words = {"debezium": "Debezium", "debezium 5 ms": "Debezium, polled every 5 ms"}
                scenarios.setdefault(f"{database}: {scenario}", {})[words.get(who, who)] = metrics
    figures = [
        figure
        for metric in METRICS
        if (figure := _figure("capture", metric, scenarios, ("headw",)))
    ]
    return _chapter("Capture", "capture", about, machine, figures)


def freshness() -> Chapter:
    """A file of row → figure, each beside what was to be reached."""
    document = load("freshness")
    found = {row: each["figures"] for row, each in document["rows"].items()}
    shown = [goal for goal in goals.GOALS if goal.figure in found.get(goal.row, {})]
    figures = []
    for (unit, more), (word, words) in _FRESHNESS.items():
        groups = tuple(
            _goal_group(goal, found[goal.row][goal.figure])
            for goal in shown
            if (goal.unit, goal.at_least) == (unit, more)
        )
        if groups:
            title = f"Freshness: {word}"
            figures.append(Figure(f"freshness-{word}", title, words, more, groups))
    rows = {
        f"`{row}`, measured": f"{each['measured']}, at a load of {each['load_before']}"
        for row, each in document["rows"].items()
    }
    missing = [goal.what for goal in goals.GOALS if goal not in shown]
    about = [
        "From the commit in a database until a view shows it, and what else views cost, beside what was to "
        "be reached. The load before a row is also that of the row before it.",
        *([f"Not measured: {'; '.join(missing)}."] if missing else []),
    ]
    return _chapter("Fresh views", "freshness", about, document["machine"] | rows, figures)


def schemas() -> Chapter:
    """A file of a request, or of "what: who", → metric."""
    document = load("schemas")
    scenarios: dict[str, dict[str, Any]] = {}
    for name, values in document["results"].items():
        what, _, who = name.partition(": ")
        scenarios.setdefault(what, {})[who or "headwater"] = values
    _refuse_unknown("schemas", scenarios)
    ours = ("headwater", "by registry")
    figures = [
        figure for metric in METRICS if (figure := _figure("schemas", metric, scenarios, ours))
    ]
    about = [
        "Requests to `headwater schemas serve`, and one record of ten fields: encoded and decoded alone, of "
        "one core, and read through Spark on two, beside its own `from_avro` and without decoding."
    ]
    return _chapter("Schemas", "schemas", about, document["machine"], figures)


def _goal_group(goal: goals.Goal, value: float) -> Group:
    label = goal.what if goal.before == "–" else f"{goal.what} (before: {goal.before})"
    scale = 100 if goal.unit == "%" else 1
    ours = Bar("headwater", value * scale, True)
    if goal.bound is None:
        return Group(label, (ours,))
    target = f"{'≥' if goal.at_least else '≤'} {goal.shown(goal.bound)}"
    verdict = "met" if goal.is_met(value) else "missed"
    return Group(label, (ours, Bar("to reach", goal.bound * scale, False)), target, verdict)


_FRESHNESS = {
    ("s", False): ("time", "seconds"),
    ("times", False): ("growth", "times as much"),
    ("%", False): ("idle", "percent of a core"),
    ("MB", False): ("memory", "megabytes of memory"),
    ("rows/s", True): ("rows", "changed rows per second"),
    ("rows/CPU s", True): ("rows-per-cpu", "changed rows per second of CPU"),
    ("changes/s", True): ("rebuild", "changes per second"),
}
"""Unit and direction → name and words of a plot."""


def _chapter(
    title: str, name: str, about: list[str], machine: Mapping[str, Any], figures: list[Figure]
) -> Chapter:
    load_before = max(
        [float(value) for key, value in machine.items() if "load" in key], default=0.0
    )
    if load_before > 0.5:
        about = [
            *about,
            f"**The machine was not quiet**: its load was {load_before:g} before the run, so rates are lower "
            "than they would be alone and differ from run to run; CPU figures suffer least.",
        ]
    shown = tuple((_MACHINE.get(key, key), str(value)) for key, value in machine.items())
    command = f"make bench-{name}"
    return Chapter(
        title, f"bench/results/{name}.json", command, tuple(about), shown, tuple(figures)
    )


_ABOUT = {
    "edges": [
        "Events in by HTTP and by UDP, and a changefeed to many clients; beside what one would write: "
        "FastAPI and confluent-kafka, one call per record, without limits, tokens, filters or resuming.",
        "Broker, server and clients share the cores. Of HTTP, the times are those of whole requests; of the "
        "changefeed, from the append to each client.",
    ]
}


def chapters() -> list[Chapter]:
    """Of every results file that is kept."""
    found = [broker()]
    spark = (
        'The same records read through `format("headwater")` and through Spark\'s Kafka connector.'
    )
    found.append(measured("spark", "The Spark source", [spark], ("files", "network")))
    found.append(capture())
    views = "The same rows into every store, by headwater and by what one would write instead."
    found.append(measured("views", "Views", [views], ("headwater", "first build")))
    if (RESULTS / "freshness.json").exists():
        found.append(freshness())
    if (RESULTS / "schemas.json").exists():
        found.append(schemas())
    later = {"events": "Event sourcing", "processing": "Stream processing", "edges": "The edges"}
    for name, title in later.items():
        if (RESULTS / f"{name}.json").exists():
            found.append(measured(name, title, _ABOUT.get(name, []), ("headwater",)))
    return found
