"""Random histories of searches, clicks, orders and a table of prices; and what their joins must be."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

LATENESS_S = 60
RANGE_S = 30
Row = dict[str, Any]


class Arrival(NamedTuple):
    """A record: when the log got it, in seconds, and what it says."""

    second: int
    topic: str
    row: Row


def history(seed: int, length: int = 60) -> list[Arrival]:
    """In the order of arrival; every event at most the lateness old."""
    choice = random.Random(seed)
    found = []
    for number in range(length):
        second = 10 * number + choice.randrange(10)
        topic = choice.choice(["searches", "clicks", "orders", "prices"])
        key = choice.choice("abcde")
        old = second - choice.randrange(LATENESS_S - 5)
        if topic == "prices":
            # Backdated now and then, further than the lateness: for later orders only.
            since = second - choice.choice([0, 0, 20, 150])
            row: Row = {"item": key, "price": number, "since": since, "deleted": False}
            row["deleted"] = choice.random() < 0.2
        elif topic == "clicks":
            row = {"id": f"c{number}", "search": key, "clicked": old}
        elif topic == "searches":
            row = {"id": f"s{number}", "search": key, "searched": old}
        else:
            timed = choice.random() < 0.9  # one without a time has no price of its time
            row = {"id": f"o{number}", "item": key, "ordered": old if timed else None}
        found.append(Arrival(second, topic, row))
    return found


def of(arrivals: list[Arrival], topic: str) -> list[Arrival]:
    return [each for each in arrivals if each.topic == topic]


def clicked(arrivals: list[Arrival]) -> set[tuple[str, str | None]]:
    """Searches with the clicks on them within the range; searches and clicks alone with None."""
    searches = [each.row for each in of(arrivals, "searches")]
    clicks = [each.row for each in of(arrivals, "clicks")]
    pairs = {
        (s["id"], c["id"])
        for s in searches
        for c in clicks
        if s["search"] == c["search"] and 0 <= c["clicked"] - s["searched"] <= RANGE_S
    }
    alone = {s["id"] for s in searches} - {s for s, _ in pairs}
    unasked = {c["id"] for c in clicks} - {c for _, c in pairs}
    return pairs | {(s, None) for s in alone} | {(None, c) for c in unasked}


def price(arrivals: list[Arrival], item: str, valid_by: int, recorded_by: int) -> int | None:
    """Of the prices valid by one time and recorded by another, the one with the latest valid time."""
    best: tuple[int, int, int] | None = None
    found = None
    for number, each in enumerate(of(arrivals, "prices")):
        valid = each.second if each.row["deleted"] else each.row["since"]
        rank = (valid, each.second, number)
        fits = each.row["item"] == item and valid <= valid_by and each.second <= recorded_by
        if fits and (best is None or rank > best):
            best, found = rank, None if each.row["deleted"] else each.row["price"]
    return found


def dated(arrivals: list[Arrival]) -> set[tuple[str, int | None]]:
    """Orders with the price that was valid when they were made."""
    found = set()
    for order in of(arrivals, "orders"):
        at = order.row["ordered"]
        known = None if at is None else price(arrivals, order.row["item"], at, at + LATENESS_S)
        found.add((order.row["id"], known))
    return found


def enriched(arrivals: list[Arrival]) -> set[tuple[str, int | None]]:
    """Orders with the price that the log knew when it got them."""
    found = set()
    for order in of(arrivals, "orders"):
        known = [
            each
            for each in of(arrivals, "prices")
            if each.row["item"] == order.row["item"] and each.second <= order.second
        ]
        last = known[-1].row if known else None
        found.add((order.row["id"], last["price"] if last and not last["deleted"] else None))
    return found
