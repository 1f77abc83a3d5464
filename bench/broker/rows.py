"""What is compared with what, which target it has, and whether it was met.

`report` prints these rows. Three comparisons share the four contestants' measurements; a ratio is
always headwater's figure divided by Kafka's.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bench.broker import contestants
from bench.broker.contestants import KAFKA_HEAP, Contestant
from bench.broker.results import Results

Verdict = Literal["met", "level", "missed", ""]


@dataclass(frozen=True)
class Comparison:
    title: str
    headwater: Contestant
    kafka: Contestant
    same_durability: bool


COMPARISONS = (
    Comparison(
        "Each with its defaults: headwater answers after the disk, Kafka before",
        contestants.HEADWATER_DISK,
        contestants.KAFKA_OS,
        same_durability=False,
    ),
    Comparison(
        "Both answer after the disk: durability=disk beside log.flush.interval.messages=1",
        contestants.HEADWATER_DISK,
        contestants.KAFKA_DISK,
        same_durability=True,
    ),
    Comparison(
        "Both answer before the disk: durability=os beside Kafka's default",
        contestants.HEADWATER_OS,
        contestants.KAFKA_OS,
        same_durability=True,
    ),
)


@dataclass(frozen=True)
class Row:
    label: str
    unit: str
    headwater: float
    kafka: float
    ratio: float
    target: str
    verdict: Verdict
    bound: str


def rows(results: Results, comparison: Comparison) -> list[Row]:
    """The rows of one table; what was not measured is left out."""
    found = [
        *_throughput(results, comparison),
        *_cpu(results, comparison),
        *_latency(results, comparison),
        *_start_and_memory(results, comparison),
        *_growth(results, comparison),
    ]
    return [row for row in found if row is not None]


def _throughput(results: Results, versus: Comparison) -> Iterator[Row | None]:
    """Fetching does not depend on durability, so only the first table has it."""
    kinds = ("produce,",) if versus.same_durability else ("produce,", "fetch,")
    for scenario in results.values:
        if scenario.startswith(kinds):
            bound = _bound(results, scenario, versus)
            yield _row(
                results, versus, scenario, "records_per_s", scenario, "records/s", 1.0, bound
            )


def _cpu(results: Results, versus: Comparison) -> Iterator[Row | None]:
    metric, unit = "cpu_s_per_million", "s per million"
    for produce in [each for each in results.values if each.startswith("produce,")]:
        client = produce.removeprefix("produce, ")
        fetch = f"fetch, {client}"
        sums = [
            _sum(results.rounds(produce, each, metric), results.rounds(fetch, each, metric))
            for each in (versus.headwater, versus.kafka)
        ]
        for name in ("produce",) if versus.same_durability else ("produce", "fetch"):
            label = f"broker CPU, {name}, {client}"
            yield _row(results, versus, f"{name}, {client}", metric, label, unit, -0.5, "")
        yield _compare(f"broker CPU, both, {client}", unit, sums[0], sums[1], -0.5, "")


def _latency(results: Results, versus: Comparison) -> Iterator[Row | None]:
    """Comparable only where both wait for the same thing; else the figures stand without a target."""
    target = -1.0 if versus.same_durability else None
    for scenario in [each for each in results.values if each.startswith("latency,")]:
        for metric in ("p50_ms", "p99_ms", "p999_ms"):
            label = f"{scenario}, {metric[:-3]}"
            bound = (
                "fdatasync, then wake-ups" if versus.headwater.durability == "disk" else "wake-ups"
            )
            yield _row(results, versus, scenario, metric, label, "ms", target, bound)


def _start_and_memory(results: Results, versus: Comparison) -> Iterator[Row | None]:
    if versus.same_durability:
        return
    heap = f"Kafka: the JVM with its {KAFKA_HEAP} heap"
    yield _row(results, versus, "memory", "idle_mb", "memory, idle", "MB", -0.2, heap)
    yield _row(results, versus, "memory", "loaded_mb", "memory, after the load", "MB", -0.2, heap)
    start = "imports; Kafka: class loading"
    for metric, label in (("listening_s", "listening"), ("first_ack_s", "first record")):
        yield _row(results, versus, "start", metric, f"start to {label}", "s", -0.2, start)


def _growth(results: Results, versus: Comparison) -> Iterator[Row | None]:
    scenarios = [f"append to a {size} log" for size in ("small", "large")]
    for scenario in scenarios:
        bound = _bound(results, scenario, versus)
        yield _row(results, versus, scenario, "records_per_s", scenario, "records/s", 1.0, bound)
    flat = []
    for each in (versus.headwater, versus.kafka):
        rates = [results.rounds(scenario, each, "records_per_s") for scenario in scenarios]
        flat.append([large / small for small, large in zip(*rates, strict=True)])
    if flat[0] and flat[1]:
        mine, theirs = map(statistics.median, flat)
        short = 0.9 - mine
        verdict: Verdict = "met" if short <= 0 else "level" if short < _noise(flat[0]) else "missed"
        label = "append, large log over small log"
        yield Row(label, "", mine, theirs, mine / theirs, "own ≥ 0.9", verdict, "flat is 1.0")
    for size in ("small", "large"):
        scenario = f"restart after kill -9, {size} log"
        bound = "start, then the log's tail"
        yield _row(results, versus, scenario, "first_ack_s", scenario, "s", -1.0, bound)


def _row(
    results: Results,
    versus: Comparison,
    scenario: str,
    metric: str,
    label: str,
    unit: str,
    target: float | None,
    bound: str,
) -> Row | None:
    mine = results.rounds(scenario, versus.headwater, metric)
    theirs = results.rounds(scenario, versus.kafka, metric)
    return _compare(label, unit, mine, theirs, target, bound)


def _compare(
    label: str,
    unit: str,
    mine: list[float],
    theirs: list[float],
    target: float | None,
    bound: str,
) -> Row | None:
    """`target` is the least ratio, or, when negative, the greatest."""
    if not mine or not theirs or not statistics.median(theirs):
        return None
    headwater, kafka = statistics.median(mine), statistics.median(theirs)
    ratio = headwater / kafka
    if target is None:
        return Row(label, unit, headwater, kafka, ratio, "", "", bound)
    shown = f"≥ {target:g}" if target > 0 else f"≤ {-target:g}"
    reached = ratio / target if target > 0 else -target / ratio if ratio else 2.0
    noise = max(_noise(mine), _noise(theirs))
    verdict: Verdict = "met" if reached >= 1 else "level" if reached >= 1 - noise else "missed"
    return Row(label, unit, headwater, kafka, ratio, shown, verdict, bound)


def _noise(values: list[float]) -> float:
    """How far two equal brokers might differ by chance: half the range over the median, 3 to 10 %."""
    return min(max((max(values) - min(values)) / 2 / statistics.median(values), 0.03), 0.1)


def _sum(produce: list[float], fetch: list[float]) -> list[float]:
    return [a + b for a, b in zip(produce, fetch, strict=False)]


def _bound(results: Results, scenario: str, versus: Comparison) -> str:
    """What was busy while it ran, for headwater and then for Kafka."""
    sides = [_busy(results, scenario, each) for each in (versus.headwater, versus.kafka)]
    return sides[0] if sides[0] == sides[1] else f"{sides[0]}; Kafka: {sides[1]}"


def _busy(results: Results, scenario: str, contestant: Contestant) -> str:
    cores = {
        name: results.median(scenario, contestant, f"{name}_cores") or 0.0
        for name in ("broker", "client", "idle", "other")
    }
    if cores["client"] >= 0.8 and cores["client"] > cores["broker"]:
        return "client"
    if cores["broker"] >= 0.8:
        return f"broker ({cores['broker']:.1f} cores)"
    if cores["idle"] < 0.2:
        return "all cores busy" + (" with others" if cores["other"] > 0.5 else "")
    waits_for_disk = contestant.durability == "disk" and not scenario.startswith("fetch")
    return "disk" if waits_for_disk else "round trips"
