"""Who gets which task: every task once, balanced, sticky; with members and topologies that nobody chose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.broker.groups.streams.assignor import Claim, Work, assign
from headwater.broker.groups.streams.member import Assignment, Task, each_task

Target = Mapping[str, Assignment]

WORK = st.dictionaries(
    st.sampled_from("01234"), st.builds(Work, st.integers(1, 12), st.booleans()), min_size=1
)
PROCESSES = st.dictionaries(
    st.sampled_from("abcdefghij"), st.sampled_from("pqrst"), min_size=1, max_size=8
)


def claims(processes: Mapping[str, str], target: Target | None = None) -> dict[str, Claim]:
    before = target or {}
    return {id: Claim(process, before.get(id, Assignment())) for id, process in processes.items()}


def tasks_of(work: Mapping[str, Work]) -> list[Task]:
    return [(id, number) for id, each in work.items() for number in range(each.tasks)]


def active(target: Target) -> list[Task]:
    return [task for each in target.values() for task in each_task(each.active)]


@given(WORK, PROCESSES, st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_every_task_has_one_owner_and_no_process_has_it_twice(
    work: dict[str, Work], processes: dict[str, str], standbys: int
) -> None:
    target = assign(claims(processes), work, standbys)
    assert sorted(active(target)) == sorted(tasks_of(work))
    assert target.keys() == processes.keys()
    held: Counter[tuple[str, Task]] = Counter()
    for member, each in target.items():
        for role in each:
            held.update((processes[member], task) for task in each_task(role))
    assert set(held.values()) <= {1}
    copies = Counter(task for each in target.values() for task in each_task(each.standby))
    for id, number in tasks_of(work):
        wanted = min(standbys, len(set(processes.values())) - 1) if work[id].is_stateful else 0
        assert copies[id, number] == wanted


@given(WORK, PROCESSES)
@settings(max_examples=100, deadline=None)
def test_load_is_spread_over_members_of_processes(
    work: dict[str, Work], processes: dict[str, str]
) -> None:
    target = assign(claims(processes), work, 0)
    sizes = Counter(processes.values())
    loads = {
        process: sum(
            len(list(each_task(target[m].active))) for m in processes if processes[m] == process
        )
        / sizes[process]
        for process in sizes
    }
    assert max(loads.values()) - min(loads.values()) <= 1
    for process in sizes:
        mine = [
            len(list(each_task(target[m].active))) for m in processes if processes[m] == process
        ]
        assert max(mine) - min(mine) <= 1


@given(WORK, PROCESSES, st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_nothing_moves_without_a_reason(
    work: dict[str, Work], processes: dict[str, str], standbys: int
) -> None:
    first = assign(claims(processes), work, standbys)
    again = assign(claims(processes, first), work, standbys)
    assert {id: each.active for id, each in again.items()} == {
        id: each.active for id, each in first.items()
    }


@given(WORK, PROCESSES)
@settings(max_examples=100, deadline=None)
def test_a_member_that_comes_takes_only_its_share(
    work: dict[str, Work], processes: dict[str, str]
) -> None:
    before = assign(claims(processes), work, 0)
    grown = {**processes, "new": "n"}
    after = assign(claims(grown, before), work, 0)
    share = -(-len(tasks_of(work)) // len(grown))
    moved = list(each_task(after["new"].active))
    assert len(moved) <= share
    assert sorted(active(after)) == sorted(tasks_of(work))


@given(WORK, PROCESSES)
@settings(max_examples=100, deadline=None)
def test_a_member_that_goes_moves_only_its_own_if_the_others_are_full(
    work: dict[str, Work], processes: dict[str, str]
) -> None:
    members = {id: id for id in processes}  # a process each
    before = assign(claims(members), work, 0)
    gone = min(members)
    left = {id: process for id, process in members.items() if id != gone}
    if not left:
        return
    after = assign(claims(left, before), work, 0)
    for id in left:
        assert set(each_task(before[id].active)) <= set(each_task(after[id].active))


def test_a_standby_becomes_the_owner_when_that_one_goes() -> None:
    work = {"1": Work(4, True)}
    before = assign(claims({"a": "p", "b": "q"}), work, 1)
    after = assign(claims({"b": "q"}, before), work, 1)
    assert after["b"].active == {"1": frozenset(range(4))}
    assert after["b"].standby == {}


def test_nobody_gets_nothing() -> None:
    assert assign({}, {"0": Work(3, False)}, 1) == {}
    assert assign(claims({"a": "p"}), {}, 1) == {"a": Assignment()}
