"""Sketches against the truth, alone and merged, within the errors that are documented."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from headwater import processing as p

pytestmark = pytest.mark.timeout(900)


def test_every_sketch_keeps_to_its_error_also_when_merged(headwater_spark: Any) -> None:
    chance = random.Random(3)
    rows = [
        (hour, f"u{min(int(chance.expovariate(0.0005)), 9999)}", chance.gauss(100, 20))
        for hour in range(4)
        for _ in range(10_000)
    ]
    events = headwater_spark.createDataFrame(rows, "hour INT, user STRING, amount DOUBLE")
    hours = events.groupBy("hour").agg(
        p.Distinct.sketch("user").alias("users"),
        p.Sets.sketch("user").alias("sets"),
        p.Percentiles.sketch("amount").alias("amounts"),
        p.Top.sketch("user", 2000).alias("top"),
        p.Frequencies.sketch("user").alias("counts"),
        p.Members.sketch("user", items=10_000).alias("members"),
    )
    hours.cache()  # asked for three times
    kept = {row.hour: row for row in hours.collect()}
    merged = hours.agg(
        p.Distinct.estimate(p.Distinct.merge("users")).alias("users"),
        p.Sets.estimate(p.Sets.merge("sets")).alias("sets"),
        p.Percentiles.at(p.Percentiles.merge("amounts"), [0.5, 0.99]).alias("amounts"),
        p.Top.estimate(p.Top.merge("top", 2000), 5).alias("top"),
    ).first()
    one = events.agg(
        p.Distinct.of("user").alias("users"),
        p.Sets.of("user").alias("sets"),
        p.Percentiles.of("amount", 0.5).alias("half"),
        p.Top.of("user", 3).alias("top"),
    ).first()
    truth: dict[str, int] = {}
    for _, user, _ in rows:
        truth[user] = truth.get(user, 0) + 1
    for found in (merged, one):
        assert found.users == pytest.approx(len(truth), rel=4 * 0.013)
        assert found.sets == pytest.approx(len(truth), rel=4 * 0.0157)
    amounts = sorted(amount for _, _, amount in rows)
    for rank, value in zip((0.5, 0.99), merged.amounts, strict=True):
        exact = sum(amount <= value for amount in amounts) / len(amounts)
        assert exact == pytest.approx(rank, abs=0.0165)
    assert one.half == pytest.approx(100, abs=2)
    bound = 3.5 * len(rows) / 2000
    for item in merged.top:
        assert truth[item["item"]] - bound <= item["count"] <= truth[item["item"]] + bound

    counts = p.Frequencies.merge(*(bytes(row.counts) for row in kept.values()))
    members = p.Members.merge(*(bytes(row.members) for row in kept.values()))
    asked = chance.sample(sorted(truth), 50)
    high = 0
    for user in asked:
        assert p.Members.contains(members, user)
        found = p.Frequencies.count(counts, user)
        assert found >= truth[user]
        high += found > truth[user] + 0.001 * len(rows)
    assert high <= 8  # a twentieth is expected
    strangers = sum(p.Members.contains(members, f"stranger {n}") for n in range(200))
    assert strangers <= 20  # 3 of 100 are expected

    two = hours.where("hour < 2").select("sets", "hour")
    first, second = two.where("hour = 0").select(F.col("sets").alias("x")), two.where("hour = 1")
    pair = first.crossJoin(second).select(
        p.Sets.estimate(p.Sets.both("x", "sets")).alias("both"),
        p.Sets.estimate(p.Sets.without("x", "sets")).alias("left"),
    )
    people = [{user for hour, user, _ in rows if hour == which} for which in (0, 1)]
    found = pair.first()
    error = 4 * 0.0157 * len(people[0] | people[1])
    assert abs(found.both - len(people[0] & people[1])) <= error
    assert abs(found.left - len(people[0] - people[1])) <= error
    hours.unpersist()


def test_a_rate_is_by_the_length_of_the_window(headwater_spark: Any) -> None:
    frame = headwater_spark.sql(
        "SELECT named_struct('start', TIMESTAMP'2026-01-01 10:00', 'end', "
        "TIMESTAMP'2026-01-01 11:00') AS window, 7200 AS n"
    )
    found = frame.select(p.rate("n").alias("s"), p.rate("n", per="1 minute").alias("m")).first()
    assert (found.s, found.m) == (2.0, 120.0)
