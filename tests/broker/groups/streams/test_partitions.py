"""A topology beside the topics that there are: how many partitions and tasks follow from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.streams import partitions
from headwater.broker.groups.streams.endpoints import partitions_by_endpoint
from headwater.broker.groups.streams.heartbeat import Beat
from headwater.broker.groups.streams.member import Assignment, Endpoint
from headwater.broker.groups.streams.partitions import configured
from headwater.broker.groups.streams.status import StatusCode
from headwater.broker.groups.streams.topology import Copartition, Subtopology, TopicInfo, Topology
from tests.broker.groups.consumer.hall import FakeImage
from tests.broker.groups.streams.theatre import Theatre


def image(**topics: int) -> FakeImage:
    found = FakeImage()
    for name, count in topics.items():
        found.put(name, count)
    return found


def counts(topology: Topology, there: FakeImage) -> dict[str, int]:
    found = configured(topology, there)
    assert found.problem is None or found.missing, found.problem
    return {topic.name: topic.partitions for topic in found.missing}


def test_a_repartition_topic_has_as_many_partitions_as_the_largest_of_what_flows_into_it() -> None:
    """
    a(2) ─┐
    b(5) ─┴▶ 0 ─▶ r ─▶ 1 ─▶ s ─▶ 2 (changelog c)
    """
    topology = Topology(
        0,
        (
            Subtopology("0", sources=("a", "b"), sinks=("r",)),
            Subtopology("1", repartitions=(TopicInfo("r"),), sinks=("s",)),
            Subtopology("2", repartitions=(TopicInfo("s"),), changelogs=(TopicInfo("c"),)),
        ),
    )
    assert counts(topology, image(a=2, b=5)) == {"r": 5, "s": 5, "c": 5}
    found = configured(topology, image(a=2, b=5, r=5, s=5, c=5))
    assert found.is_ready
    assert [each.tasks for each in found.subtopologies.values()] == [5, 5, 5]
    assert [each.is_stateful for each in found.subtopologies.values()] == [False, False, True]


def test_topics_that_are_read_side_by_side_agree() -> None:
    def joined(*infos: TopicInfo, sources: tuple[str, ...] = ()) -> Topology:
        places = Copartition(tuple(range(len(sources))), (), tuple(range(len(infos))))
        return Topology(
            0,
            (
                Subtopology("0", sources=("a",), sinks=tuple(each.name for each in infos[:1])),
                Subtopology("1", sources=("b",), sinks=tuple(each.name for each in infos[1:])),
                Subtopology("2", sources=sources, repartitions=infos, copartitions=(places,)),
            ),
        )

    there = image(a=2, b=6)
    assert counts(joined(TopicInfo("r"), TopicInfo("s")), there) == {"r": 6, "s": 6}
    assert counts(joined(TopicInfo("r", 3), TopicInfo("s")), there) == {"r": 3, "s": 3}
    assert counts(joined(TopicInfo("r"), sources=("b",)), there) == {"r": 6}
    wrong = configured(joined(TopicInfo("r", 3), TopicInfo("s", 4)), there)
    assert wrong.problem is not None
    assert wrong.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert not wrong.missing, "nothing is made of what cannot be right"


@pytest.mark.parametrize(
    "subtopologies",
    [
        (Subtopology("0"),),
        (Subtopology("0", repartitions=(TopicInfo("r"),)),),
        (
            Subtopology("0", repartitions=(TopicInfo("r"),), sinks=("s",)),
            Subtopology("1", repartitions=(TopicInfo("s"),), sinks=("r",)),
        ),
    ],
)
def test_a_topology_that_no_topic_can_make_right_is_refused(
    subtopologies: tuple[Subtopology, ...],
) -> None:
    with pytest.raises(HeartbeatRefused) as refused:
        configured(Topology(0, subtopologies), image())
    assert refused.value.error is ErrorCode.streams_invalid_topology


class Counted(tuple[Any, ...]):
    """Counts how often one of its items is looked at, in all lists together."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            Counted.looks += 1
            yield each


def looks(topology: Topology) -> int:
    """How many items of its lists are looked at until all is decided."""
    counted = Topology(
        0,
        tuple(
            replace(
                each,
                sources=Counted(each.sources),
                sinks=Counted(each.sinks),
                repartitions=Counted(each.repartitions),
            )
            for each in topology.subtopologies
        ),
    )
    Counted.looks = 0
    assert configured(counted, image(a=2)).missing
    return Counted.looks


def fan(width: int) -> Topology:
    """So many sources and so many sinks in one subtopology."""
    sinks = tuple(f"r{n}" for n in range(width))
    reader = Subtopology("1", repartitions=tuple(map(TopicInfo, sinks)))
    return Topology(0, (Subtopology("0", sources=("a",) * width, sinks=sinks), reader))


def chain(length: int) -> Topology:
    """a ─▶ last ─▶ … ─▶ 1 ─▶ 0: each knows its partitions when the one after it in the list does."""
    middle = (
        Subtopology(f"{n:03}", sinks=(f"r{n - 1}",), repartitions=(TopicInfo(f"r{n}"),))
        for n in range(1, length)
    )
    first = Subtopology(f"{length:03}", sources=("a",), sinks=(f"r{length - 1}",))
    return Topology(0, (Subtopology("000", repartitions=(TopicInfo("r0"),)), *middle, first))


@pytest.mark.parametrize("shape", [fan, chain])
def test_a_topology_twice_as_large_is_twice_the_work(shape: Callable[[int], Topology]) -> None:
    assert looks(shape(200)) < 2.5 * looks(shape(100))


def test_partitions_flow_along_a_chain_whatever_the_order_of_the_list() -> None:
    assert counts(chain(300), image(a=3)) == {f"r{n}": 3 for n in range(300)}


def test_more_tasks_than_there_may_be_are_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "TASKS_MAX", 7)
    topology = Topology(0, (Subtopology("0", ("a",)), Subtopology("1", ("a", "b"))))
    assert configured(topology, image(a=3, b=4)).is_ready
    found = configured(topology, image(a=4, b=4))
    assert found.problem is not None
    assert found.problem.detail == "The topology has more than 7 tasks."
    monkeypatch.setattr(partitions, "INPUTS_MAX", 10)
    assert configured(topology, image(a=2, b=4)).is_ready
    wide = configured(topology, image(a=3, b=4))
    assert wide.problem is not None
    assert wide.problem.detail == "The topology has more than 10 inputs."


def test_where_queries_are_answered_is_told_without_a_step_for_each_partition() -> None:
    """There may be 100,000 of them, and a join hears of all in one turn."""
    tasks, sources = 1000, tuple(f"s{number}" for number in range(25))
    stage = Theatre(Topology(0, (Subtopology("0", sources=sources),)))
    for name in sources:
        stage.image.put(name, tasks if name != "s7" else tasks // 2)
    said = Beat("m", 0, topology=stage.topology, endpoint=Endpoint("h", 1), owned=Assignment())
    calls, before = [0], sys.getprofile()
    stage.beat(said)

    def counted(*_: object) -> None:
        calls[0] += 1

    sys.setprofile(counted)
    try:
        (found,) = partitions_by_endpoint(stage.group, stage.image)
    finally:
        sys.setprofile(before)
    assert calls[0] < tasks
    assert dict(found.active) == {
        name: tuple(range(tasks // 2 if name == "s7" else tasks)) for name in sources
    }
