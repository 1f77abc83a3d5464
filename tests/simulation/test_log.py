"""Whatever happens to the disk, what was acknowledged is there, in order, with the same offsets."""

from __future__ import annotations

from . import plan


def test_acknowledged_records_survive_any_crash() -> None:
    plan.check(1_000, 250, plan.ORDINARY | plan.CRASHES, "disk")


def test_acknowledged_records_survive_a_failing_disk() -> None:
    plan.check(2_000, 250, plan.ORDINARY | plan.CRASHES | plan.FAILURES, "disk")


def test_with_durability_os_a_kill_loses_nothing() -> None:
    plan.check(3_000, 100, plan.ORDINARY | {"kill": 4}, "os")


def test_with_durability_os_a_power_cut_leaves_a_prefix() -> None:
    plan.check(4_000, 120, plan.ORDINARY | plan.CRASHES, "os")


def test_compaction_keeps_the_newest_of_every_key_through_any_crash() -> None:
    plan.check(5_000, 150, plan.COMPACTION | plan.CRASHES, "disk", compact=True)


def test_compaction_keeps_the_newest_of_every_key_on_a_failing_disk() -> None:
    plan.check(6_000, 100, plan.COMPACTION | plan.FAILURES, "disk", compact=True)
