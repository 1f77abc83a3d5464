"""Which version of a row an event sees: the rule, tried against its definition on random histories."""

from __future__ import annotations

import random

from headwater.processing.joins.versions import EVER, NEVER, Change, Event, Group

LATENESS = 10


def change(valid: int, recorded: int, row: str | None, offset: int = 0) -> Change:
    return Change("k", valid, recorded, 0, offset, row)


def by_definition(changes: list[Change], event: Event, lateness: int) -> str | None:
    """The latest valid time among those valid by t and recorded by t + lateness."""
    known = [
        each
        for each in changes
        if each.key == event.key
        and each.valid <= event.time
        and each.recorded <= event.time + lateness
    ]
    return max(known, key=lambda c: (c.valid, c.recorded, c.offset)).row if known else None


def seen(changes: list[Change], *times: int, lateness: int = LATENESS) -> list[str | None]:
    group = Group()
    group.take(changes, [Event(t, "k", str(t)) for t in times], lateness)
    return [row for _, row, _ in group.decide(NEVER)]


def test_an_event_sees_the_row_that_was_valid_at_its_time():
    #  a         b          deleted
    #  ├────10───├────20────┤
    changes = [change(0, 0, "a"), change(10, 10, "b"), change(20, 20, None)]
    assert seen(changes, -1, 0, 9, 10, 19, 20) == [None, "a", "a", "b", "b", None]
    assert seen(changes[::-1], 9, 10, 20) == ["a", "b", None]


def test_a_change_that_is_told_too_late_holds_for_later_events_only():
    #  valid 10, told at 40: seen from 40 - 10 on, unless something newer is valid by then
    late = change(10, 40, "late")
    assert seen([change(0, 0, "a"), late], 12, 29, 30) == ["a", "a", "late"]
    assert seen([change(0, 0, "a"), late, change(20, 20, "b")], 12, 25, 35) == ["a", "b", "b"]
    # within the lateness it counts from its valid time on
    assert seen([change(0, 0, "a"), change(10, 20, "in time")], 9, 10) == ["a", "in time"]


def test_of_two_changes_for_one_time_the_later_record_counts():
    assert seen([change(5, 5, "a", 1), change(5, 5, "b", 2)], 5) == ["b"]
    assert seen([change(5, 5, "b", 2), change(5, 5, "a", 1)], 5) == ["b"]
    assert seen([change(EVER, 3, "since ever")], 0, lateness=3) == ["since ever"]


def test_an_event_without_a_key_sees_nothing():
    group = Group()
    group.take([change(0, 0, "a")], [Event(5, None, "e")], LATENESS)
    assert group.decide(NEVER) == [("e", None, 5)]


def test_what_no_event_can_see_any_more_is_let_go():
    group = Group()
    group.take([change(n, n, str(n)) for n in range(100)], [], LATENESS)
    group.settle(50, forget=30)
    assert [version.row for version in group.versions["k"]] == [str(n) for n in range(50, 100)]
    group.take([change(100, 100, None)], [], LATENESS)
    group.settle(129, forget=30)  # the deletion is remembered …
    assert [version.row for version in group.versions["k"]] == [None]
    group.settle(130, forget=30)  # … for this long
    assert group.versions == {}


def test_any_batches_give_what_the_definition_says():
    for seed in range(60):
        choice = random.Random(seed)
        records = history(choice)
        changes = [each for each in records if isinstance(each, Change)]
        events = [each for each in records if isinstance(each, Event)]
        expected = sorted((e.row, by_definition(changes, e, LATENESS) or "") for e in events)
        assert in_batches(records, choice) == expected, f"seed {seed}"


def history(choice: random.Random) -> list[Change | Event]:
    """Records in the order of arrival; events at most LATENESS old, changes now and then older."""
    records: list[Change | Event] = []
    for now in range(choice.randrange(5, 80)):
        key = choice.choice("abc")
        if choice.random() < 0.4:
            valid = now - choice.choice([0, 0, 1, 5, LATENESS, 25])
            row = None if choice.random() < 0.2 else f"{key}{now}"
            records.append(Change(key, valid, now, 0, now, row))
        else:
            records.append(Event(now - choice.randrange(LATENESS), key, f"e{now}"))
    return records


def in_batches(records: list[Change | Event], choice: random.Random) -> list[tuple[str, str]]:
    """As Spark goes about it: a watermark that follows the newest event, state kept as bytes."""
    found, kept, watermark, rest = [], Group().to_bytes(), EVER, list(records)
    while rest:
        size = choice.randrange(1, 12)
        batch, rest = rest[:size], rest[size:]
        group = Group.from_bytes(kept)
        choice.shuffle(batch)
        changes = [each for each in batch if isinstance(each, Change)]
        group.take(changes, [each for each in batch if isinstance(each, Event)], LATENESS)
        watermark = max(watermark, group.newest - LATENESS)
        found += group.decide(watermark)
        group.settle(watermark, forget=100)
        kept = group.to_bytes()
    found += Group.from_bytes(kept).decide(NEVER)
    return sorted((event, row or "") for event, row, _ in found)
