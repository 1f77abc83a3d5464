"""Who gets which task: sticky first, then balanced (Kafka's `sticky` assignor).

`steps` hands in what the members have as targets now, and takes the next target. An active task stays
where it was, or goes to a process that has it as a standby, as long as that member's share allows; what
is left goes to the process with the least load, a process being loaded by its tasks for each of its
members. Standbys are laid beside that: never in a process that has the task already, at the last owner
first, and fewer than wished for where there are not enough processes. Nothing here is random: the same
members and tasks give the same answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.broker.groups.streams.member import Assignment, Task, each_task


@dataclass(frozen=True, slots=True)
class Claim:
    """A member, and what its target was until now."""

    process_id: str
    previous: Assignment = field(default_factory=Assignment)


@dataclass(frozen=True, slots=True)
class Work:
    """A subtopology: how many tasks it has, and whether these have state."""

    tasks: int
    is_stateful: bool


class _Process:
    __slots__ = ("_by_count", "counts", "id", "load", "tasks")

    def __init__(self, id: str) -> None:
        self.id = id
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.load = 0.0
        self._by_count: list[tuple[int, str]] = []
        """Members by how many tasks they have; an entry that has been overtaken is passed over."""

    def join(self, member_id: str) -> None:
        self.counts[member_id] = 0
        heapq.heappush(self._by_count, (0, member_id))

    def add(self, member_id: str, task: Task) -> int:
        count = self.counts[member_id] = self.counts[member_id] + 1
        heapq.heappush(self._by_count, (count, member_id))
        self.tasks.add(task)  # no process has a task twice
        self.load = len(self.tasks) / len(self.counts)
        return count

    def least(self) -> str:
        count, member_id = self._by_count[0]
        while self.counts[member_id] != count:
            heapq.heappop(self._by_count)
            count, member_id = self._by_count[0]
        return member_id


class _Quota:
    """How many tasks a member may have; what those who are full have is not shared any more."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def given(self, count: int) -> None:
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = self._share()


def assign(
    claims: Mapping[str, Claim], work: Mapping[str, Work], standbys: int
) -> dict[str, Assignment]:
    """Every task once as active, and those with state `standbys` times beside that, if there is room."""
    return _Assignor(claims, work, standbys).assigned() if claims else {}


class _Assignor:
    def __init__(
        self, claims: Mapping[str, Claim], work: Mapping[str, Work], standbys: int
    ) -> None:
        self._work = work
        self._standbys = standbys
        self._claims = {member_id: claims[member_id] for member_id in sorted(claims)}
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._last_active: dict[Task, str] = {}
        self._last_standby: dict[Task, list[str]] = {}
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in self._claims}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in self._claims}
        for member_id, claim in self._claims.items():
            process = self._processes.setdefault(claim.process_id, _Process(claim.process_id))
            process.join(member_id)
            self._process_of[member_id] = process
            for task in each_task(claim.previous.active):
                self._last_active[task] = member_id
            for task in each_task(claim.previous.standby):
                self._last_standby.setdefault(task, []).append(member_id)
        active = sum(each.tasks for each in work.values())
        copies = standbys * sum(each.tasks for each in work.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(claims))
        self._quota = _Quota(active + copies, len(claims))

    def assigned(self) -> dict[str, Assignment]:
        self._assign_active()
        if self._standbys:
            self._assign_standbys()
        return {
            member_id: Assignment(
                _by_subtopology(self._active[member_id]), _by_subtopology(self._standby[member_id])
            )
            for member_id in self._claims
        }

    # ---- active tasks ----------------------------------------------------------------------------

    def _assign_active(self) -> None:
        # By number first: so the subtopologies that a member keeps are spread as evenly as its tasks.
        left = sorted(self._tasks(stateful_only=False), key=lambda task: (task[1], task[0]))
        left = [task for task in left if not self._stays(task, self._last_active.get(task))]
        left = [task for task in left if not self._stays(task, self._least_loaded_standby(task))]
        by_load = self._by_load()
        for task in sorted(left):
            process = heapq.heappop(by_load)[2]
            self._give(process.least(), task)
            _push(by_load, process)

    def _stays(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        if self._process_of[member_id].counts[member_id] >= self._active_quota.each:
            return False
        self._give(member_id, task)
        return True

    def _give(self, member_id: str, task: Task) -> None:
        self._active[member_id].add(task)
        count = self._process_of[member_id].add(member_id, task)
        self._active_quota.given(count)
        self._quota.given(count)

    # ---- standbys --------------------------------------------------------------------------------

    def _assign_standbys(self) -> None:
        tasks = sorted(self._tasks(stateful_only=True), key=lambda t: (t[1], t[0]), reverse=True)
        left = []
        for task in tasks:
            missing = self._standbys
            while missing and self._copy_stays(task):
                missing -= 1
            if missing:
                left.append((task, missing))
        by_load = self._by_load()
        for task, missing in sorted(left, reverse=True):
            self._copy_to_least_loaded(by_load, task, missing)

    def _copy_stays(self, task: Task) -> bool:
        for member_id in (self._last_active.get(task), self._least_loaded_standby(task, task)):
            if member_id is None or task in self._process_of[member_id].tasks:
                continue
            if self._process_of[member_id].counts[member_id] < self._quota.each:
                self._copy(member_id, task)
                return True
        return False

    def _copy_to_least_loaded(
        self, by_load: list[tuple[float, str, _Process]], task: Task, missing: int
    ) -> None:
        looked_at = []
        while missing and by_load:
            process = heapq.heappop(by_load)[2]
            looked_at.append(process)
            if task not in process.tasks:
                self._copy(process.least(), task)
                missing -= 1
        for process in looked_at:
            _push(by_load, process)

    def _copy(self, member_id: str, task: Task) -> None:
        self._standby[member_id].add(task)
        self._quota.given(self._process_of[member_id].add(member_id, task))

    # ---- helpers ---------------------------------------------------------------------------------

    def _least_loaded_standby(self, task: Task, new_task: Task | None = None) -> str | None:
        """Of those that had the task as a standby; not where the process has `new_task`."""
        found = [
            member_id
            for member_id in self._last_standby.get(task, ())
            if new_task is None or new_task not in self._process_of[member_id].tasks
        ]
        return min(found, key=self._load, default=None)

    def _load(self, member_id: str) -> tuple[float, int, str]:
        process = self._process_of[member_id]
        return process.load, process.counts[member_id], member_id

    def _tasks(self, stateful_only: bool) -> list[Task]:
        return [
            (subtopology, number)
            for subtopology, each in self._work.items()
            if each.is_stateful or not stateful_only
            for number in range(each.tasks)
        ]

    def _by_load(self) -> list[tuple[float, str, _Process]]:
        found = [(each.load, each.id, each) for each in self._processes.values()]
        heapq.heapify(found)
        return found


def _push(by_load: list[tuple[float, str, _Process]], process: _Process) -> None:
    heapq.heappush(by_load, (process.load, process.id, process))


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, list[int]] = {}
    for subtopology, number in sorted(tasks):
        found.setdefault(subtopology, []).append(number)
    return {subtopology: frozenset(numbers) for subtopology, numbers in found.items()}
