"""How much of what a stranger says becomes a streams group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import bounds
from headwater.broker.groups.streams import records
from tests.broker.serving import Serving, serving
from tests.compat.streaming import NO_INTERNAL, Streaming, codes, counting, subtopology, topic
from tests.compat.wire import ErrorCode, Wire


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    at_once = dict.fromkeys(("initial.rebalance.delay.ms", "assignment.interval.ms"), 0)
    settings = {f"group.streams.{name}": value for name, value in at_once.items()}
    settings |= {"group.streams.max.size": 2, "headwater.state.max.bytes": 200_000}
    with serving(tmp_path / "data", settings) as served:
        served.run(served.broker.topics.create("lines", 2, {}))
        yield served


@pytest.fixture
def wire(served: Serving) -> Iterator[Wire]:
    with served.wire() as connection:
        yield connection


def member(wire: Wire, topology: Any, name: str = "m", **said: Any) -> Streaming:
    return Streaming(wire, "g", name, topology, **said)


def test_a_topology_fits_a_record(wire: Wire) -> None:
    value = "x" * 30_000
    large = [topic(f"c{n}", **{f"k{n}": value}) for n in range(18)]
    answer = member(
        wire, {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=large)]}
    ).join()
    assert answer.error_code is ErrorCode.streams_invalid_topology
    assert answer.error_message == f"The topology has more than {bounds.TOPOLOGY_BYTES_MAX} bytes."


def test_a_topology_counts_as_state(wire: Wire) -> None:
    value = "x" * 30_000
    large = [topic(f"c{n}", **{f"k{n}": value}) for n in range(10)]
    answer = member(
        wire, {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=large)]}
    ).join()
    assert answer.error_code is ErrorCode.group_max_size_reached
    assert member(wire, counting("lines", "g")).join().error_code is ErrorCode.none


def test_a_member_that_joins_again_takes_no_more_room(served: Serving, wire: Wire) -> None:
    topology = {"epoch": 0, "subtopologies": [subtopology("0", ["lines"])]}
    one = member(wire, topology)
    one.join()
    used = served.broker.state.used
    for _ in range(3):
        assert one.join().active_tasks
    assert served.broker.state.used == used


def test_a_topology_is_measured_once_however_often_the_state_is_counted(
    served: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert member(wire, counting("lines", "g")).join().error_code is ErrorCode.none
    monkeypatch.delattr(records, "topology_value")
    for _ in range(2):
        served.run(served.broker.state.recount())
    assert served.broker.state.used > 0


@pytest.mark.parametrize(
    ("subtopologies", "sentence"),
    [
        (
            [subtopology("0", ["lines"]), subtopology("0", ["lines"])],
            "A subtopology id is in the topology more than once.",
        ),
        (
            [subtopology("0", ["lines"], together=[([1], [])])],
            "Subtopology 0 copartitions topics that it does not have.",
        ),
        (
            [subtopology("0", ["lines"], together=[([-1], [])])],
            "Subtopology 0 copartitions topics that it does not have.",
        ),
        (
            [subtopology("0", ["lines"], repartitions=[topic("r", -1)])],
            "A repartition topic has a negative number of partitions.",
        ),
        (
            [subtopology(str(n), ["lines"]) for n in range(bounds.SUBTOPOLOGIES_MAX + 1)],
            f"The topology has more than {bounds.SUBTOPOLOGIES_MAX} subtopologies.",
        ),
        (
            [subtopology("n" * (bounds.SUBTOPOLOGY_ID_BYTES_MAX + 1), ["lines"])],
            "A subtopology id is too long.",
        ),
        (
            [subtopology("0", ["lines"], together=[([0], [])] * bounds.TOPOLOGY_PARTS_MAX)],
            f"The topology has more than {bounds.TOPOLOGY_PARTS_MAX} topics and copartition groups.",
        ),
        (
            [
                subtopology(str(n), ["lines"] * (bounds.TOPOLOGY_PARTS_MAX // 4), sinks=["lines"])
                for n in range(4)
            ],
            f"The topology has more than {bounds.TOPOLOGY_PARTS_MAX} topics and copartition groups.",
        ),
    ],
)
def test_a_topology_that_contradicts_itself_or_is_too_large_is_refused(
    wire: Wire, subtopologies: list[Any], sentence: str
) -> None:
    answer = member(wire, {"epoch": 0, "subtopologies": subtopologies}).join()
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.streams_invalid_topology,
        sentence,
    )


def test_a_group_has_so_many_members(wire: Wire) -> None:
    for name in ("a", "b"):
        assert member(wire, counting("lines", "g"), name).join().error_code is ErrorCode.none
    answer = member(wire, counting("lines", "g"), "c").join()
    assert answer.error_code is ErrorCode.group_max_size_reached


def test_long_names_are_refused(wire: Wire) -> None:
    long = "n" * (bounds.NAME_CHARS_MAX + 1)
    for said in (
        {"process_id": long},
        {"rack_id": long},
        {"user_endpoint": {"host": long, "port": 1}},
        {"client_tags": [{"key": "k", "value": long}]},
    ):
        answer = member(wire, counting("lines", "g")).join(**said)
        assert answer.error_code is ErrorCode.invalid_request
        assert "too long" in answer.error_message


def test_a_topic_that_cannot_be_made_is_named_in_the_status(wire: Wire) -> None:
    wrong = topic("g-c", retention_ms="soon")
    topology = {"epoch": 0, "subtopologies": [subtopology("0", ["lines"], changelogs=[wrong])]}
    answer = member(wire, topology).join()
    assert NO_INTERNAL in codes(answer)
    details = " ".join(each.status_detail for each in answer.status)
    assert "; Creation failed: g-c (" in details
