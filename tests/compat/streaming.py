"""A member of a streams group (KIP-1071), driven by hand over the wire."""

from __future__ import annotations

from typing import Any

from .asking import answered
from .waiting import until
from .wire import ErrorCode, Wire

STALE, NO_SOURCE, WRONG_PARTITIONS, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)
Tasks = dict[str, list[int]]


class Streaming:
    """Says what a test tells it to, and remembers epoch and tasks as a client does."""

    def __init__(self, wire: Wire, group: str, member_id: str, topology: Any, **said: Any) -> None:
        self.wire = wire
        self.group = group
        self.id = member_id
        self.epoch = self.endpoint_epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}
        self.said = {
            "topology": topology,
            "process_id": member_id,
            "rebalance_timeout": 60_000,
            **said,
        }

    def ask(self, **values: Any) -> Any:
        """One heartbeat; what is not said is null."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
            "rebalance_timeout": -1,
            **dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks")),
            **dict.fromkeys(("client_tags", "task_offsets", "task_end_offsets")),
        }
        values = {**request, **values}
        answer = answered(lambda: self.wire.ask("streams_group_heartbeat", 0, **values))
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.active, self.standby = owned(answer.active_tasks), owned(answer.standby_tasks)
        return answer

    def join(self, **values: Any) -> Any:
        self.epoch, self.active, self.standby = 0, {}, {}
        return self.ask(**{**self.said, **tasks({}, {}), "client_tags": [], **values})

    def enter(self) -> None:
        """Join; a test that does not look at the answer is in the group after this."""
        answer = self.join()
        assert answer.error_code is ErrorCode.none, answer

    def beat(self, **values: Any) -> Any:
        """Says what it has, which is what it was told last: it has let go of all else."""
        return self.ask(**{**tasks(self.active, self.standby), **values})

    def leave(self, **values: Any) -> Any:
        return self.ask(member_epoch=-1, **values)


def tasks(active: Tasks, standby: Tasks) -> dict[str, Any]:
    return {"active_tasks": listed(active), "standby_tasks": listed(standby), "warmup_tasks": []}


def listed(of: Tasks) -> list[dict[str, Any]]:
    return [{"subtopology_id": id, "partitions": numbers} for id, numbers in of.items()]


def owned(rows: Any) -> Tasks:
    return {each.subtopology_id: sorted(each.partitions) for each in rows}


def codes(answer: Any) -> list[int]:
    return [each.status_code for each in answer.status]


def counting(source: str, application: str, epoch: int = 0) -> dict[str, Any]:
    """A word count's topology: one subtopology into a repartition topic, one from there with state."""
    words = topic(f"{application}-words-repartition")
    changelog = topic(f"{application}-counts-changelog", cleanup_policy="compact")
    return {
        "epoch": epoch,
        "subtopologies": [
            subtopology("0", sources=[source], sinks=[words["name"]]),
            subtopology("1", repartitions=[words], changelogs=[changelog]),
        ],
    }


def topic(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    pairs = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": 0,
        "topic_configs": pairs,
    }


def subtopology(
    id: str,
    sources: Any = (),
    sinks: Any = (),
    repartitions: Any = (),
    changelogs: Any = (),
    together: Any = (),
) -> dict[str, Any]:
    """`together` has a pair of lists of places for each copartition group."""
    groups = [
        {"source_topics": each, "source_topic_regex": [], "repartition_source_topics": others}
        for each, others in together
    ]
    return {
        "subtopology_id": id,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": list(changelogs),
        "repartition_sink_topics": list(sinks),
        "repartition_source_topics": list(repartitions),
        "copartition_groups": groups,
    }


def described(wire: Wire, group: str) -> Any:
    return wire.ask("streams_group_describe", 0, group_ids=[group]).groups[0]


def settled(*members: Streaming) -> None:
    """Let the members send heartbeats until the group is stable and has this many members."""
    first = members[0]

    def stable() -> bool:
        for member in members:
            answer = member.beat()
            assert answer.error_code is ErrorCode.none, answer
        state = described(first.wire, first.group)
        return state.group_state == "Stable" and len(state.members) == len(members)

    until(stable, f"{first.group} to be stable")
