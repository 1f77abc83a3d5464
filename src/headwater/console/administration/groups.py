"""Groups: put them elsewhere, let them forget topics, delete them; of consumers and of shares alike."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client import group_offsets, groups
from headwater.client.groups import PartitionLag, ResetPlan
from headwater.console.actions import Action
from headwater.console.administration.topics import must_match
from headwater.console.context import Visit


def reset(visit: Visit, planned: ResetPlan) -> None:
    """As it was shown; refused while the group has members."""
    visit.must(Action.RESET_GROUP)
    groups.apply_reset(visit.log, planned)


def would_forget(visit: Visit, group: str, topics: Sequence[str]) -> list[PartitionLag]:
    """The positions that `delete_offsets` would take away."""
    visit.must(Action.DELETE_OFFSETS)
    return group_offsets.would_go(groups.named(visit.log, group), topics)


def delete_offsets(visit: Visit, group: str, topics: Sequence[str]) -> None:
    visit.must(Action.DELETE_OFFSETS)
    group_offsets.delete(visit.log, groups.named(visit.log, group), topics)


def delete(visit: Visit, group: str, typed: str) -> None:
    """`typed`: the name once more, by hand."""
    visit.must(Action.DELETE_GROUP)
    must_match(group, typed)
    groups.delete(visit.log, group)
