"""Kafka's own `DumpLogSegments --offsets-decoder` reads what the coordinator wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.broker.groups.records import group_key
from headwater.record import records
from headwater.testing.apache_kafka import QUICK_JVM, java_tool
from tests.compat.missing import require_kafka_tools

from .consumer.hall import FakeImage
from .desk import Desk
from .room import subscription

MakeDesk = Callable[..., Desk]

DECODED = re.compile(r"key: (\{.*?\}) payload: (.*)$", re.MULTILINE)


async def test_kafka_reads_our_records(make_desk: MakeDesk, tmp_path: Path) -> None:
    from headwater.broker.groups.offset_store import Commit, Committer

    require_kafka_tools()
    desk = make_desk()
    member = await desk.stable()
    who = Committer("g", member, None, 1)
    await desk.groups.offsets.commit(who, [Commit("t", 0, 7, 2, "note")])
    await desk.groups.offsets.commit(Committer("h", retention_ms=5), [Commit("t", 1, 8)])
    await desk.groups.removal.delete_group("h")

    found = _dumped(desk, tmp_path)

    group, offset, own_retention, tombstone, group_tombstone = found
    assert group[0] == {"type": "2", "data": {"group": "g"}}
    assert group[1]["data"]["members"][0]["memberId"] == member
    assert group[1]["data"]["members"][0]["subscription"]["topics"] == ["t"]
    assert offset[0] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert offset[1]["version"] == "3"
    assert {"offset": 7, "leaderEpoch": 2, "metadata": "note"}.items() <= offset[1]["data"].items()
    assert own_retention[1]["version"] == "1"
    assert tombstone[1] is group_tombstone[1] is None
    assert desk.store.log[-1][0] == group_key("h")


async def test_kafka_passes_over_an_expiry_beside_a_topics_id(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    from headwater.broker.groups.offset_store import Commit, Committer

    require_kafka_tools()
    image = FakeImage()
    image.put("t", 2)
    desk = make_desk(image=image)
    await desk.groups.offsets.commit(Committer("h", retention_ms=5), [Commit("t", 1, 8)])
    ((key, value),) = _dumped(desk, tmp_path)
    assert key["data"] == {"group": "h", "topic": "t", "partition": 1}
    assert value["version"] == "4"
    assert value["data"]["offset"] == 8


async def test_kafka_reads_our_consumer_groups(make_desk: MakeDesk, tmp_path: Path) -> None:
    from headwater.broker.groups.consumer.heartbeat import Beat

    require_kafka_tools()
    image = FakeImage()
    image.put("t", 2)
    desk = make_desk(image=image)
    first = Beat("m1", 0, "i1", "rack", 30_000, frozenset({"t"}), "t.*", "range", {})
    await desk.groups.consumer_heartbeat("g", first)
    metadata = subscription("t")
    await desk.join("g", member_id="m2", protocols=(("range", metadata),))
    await desk.groups.consumer_heartbeat("g", Beat("m1", 2, "i1"))
    await desk.groups.consumer_heartbeat("g", Beat("m1", -1, "i1"))

    found = _dumped(desk, tmp_path)

    newest = {
        (key["type"], *key["data"].values()): value["data"]
        for key, value in found
        if value is not None
    }
    topic_id = next(iter(newest["7", "g", "m1"]["topicPartitions"]))["topicId"]
    assert newest["3", "g"]["epoch"] == 3
    assert newest["3", "g"]["metadataHash"] != 0
    assert newest["5", "g", "m1"]["subscribedTopicNames"] == ["t"]
    assert newest["5", "g", "m1"]["serverAssignor"] == "range"
    assert newest["5", "g", "m1"]["rackId"] == "rack"
    assert newest["5", "g", "m2"]["classicMemberMetadata"]["sessionTimeoutMs"] == 10_000
    (protocol,) = newest["5", "g", "m2"]["classicMemberMetadata"]["supportedProtocols"]
    assert protocol["name"] == "range"
    assert newest["6", "g"]["assignmentEpoch"] == 3
    assert newest["7", "g", "m2"]["topicPartitions"] == [{"topicId": topic_id, "partitions": [1]}]
    current = newest["8", "g", "m1"]
    assert (current["memberEpoch"], current["state"]) == (2, 1)
    assert current["assignedPartitions"][0]["assignmentEpochs"] == [2]
    assert current["partitionsPendingRevocation"][0]["partitions"] == [1]
    assert newest["16", "g", "t.*"]["topics"] == ["t"]
    gone = {key["type"] for key, value in found if value is None}
    assert gone == {"3", "5", "6", "7", "8", "16"}, "the group was downgraded: all of it has gone"


async def test_kafka_reads_our_streams_groups(make_desk: MakeDesk, tmp_path: Path) -> None:
    from headwater.broker.groups.streams.heartbeat import Beat
    from headwater.broker.groups.streams.member import Assignment, Endpoint

    from .streams.theatre import COUNTING

    require_kafka_tools()
    image = FakeImage()
    for name in ("lines", "words", "counts"):
        image.put(name, 2)
    desk = make_desk(image=image)
    said = {"rebalance_timeout_ms": 5_000, "topology": COUNTING, "owned": Assignment()}
    endpoint, tags = Endpoint("h", 65_000), (("zone", "a"),)
    first = Beat("m1", 0, "rack", process_id="p", endpoint=endpoint, tags=tags, **said)
    await desk.groups.streams_heartbeat("g", first)
    await desk.groups.streams_heartbeat("g", Beat("m2", 0, process_id="q", **said))
    await desk.groups.streams_heartbeat("g", Beat("m1", 2))
    live = _dumped(desk, tmp_path)
    for member in ("m1", "m2"):
        await desk.groups.streams_heartbeat("g", Beat(member, -1))
    await desk.groups.removal.delete_group("g")

    newest = {(key["type"], *key["data"].values()): value["data"] for key, value in live}
    assert {key[0] for key in newest} == {"17", "19", "20", "21", "22", "23"}
    assert newest["17", "g"]["epoch"] == 3
    assert newest["17", "g"]["validatedTopologyEpoch"] == 0
    assert newest["17", "g"]["lastAssignmentConfigs"] == [
        {"key": "num.standby.replicas", "value": "1"}
    ]
    assert newest["19", "g", "m1"]["userEndpoint"] == {"host": "h", "port": 65_000}
    assert newest["19", "g", "m1"]["clientTags"] == [{"key": "zone", "value": "a"}]
    assert newest["19", "g", "m2"]["userEndpoint"] is None
    assert newest["20", "g"]["assignmentEpoch"] == 3
    assert newest["21", "g", "m2"]["standbyTasks"][0]["subtopologyId"] == "1"
    current = newest["22", "g", "m1"]
    assert (current["memberEpoch"], current["state"]) == (2, 1)
    assert current["activeTasks"][0]["assignmentEpochs"] == [2]
    assert current["activeTasksPendingRevocation"][0]["assignmentEpochs"] == [2]
    words, counts = newest["23", "g"]["subtopologies"]
    assert words["repartitionSinkTopics"] == ["words"]
    assert counts["stateChangelogTopics"][0]["name"] == "counts"
    gone = {key["type"] for key, value in _dumped(desk, tmp_path) if value is None}
    assert gone == {"17", "19", "20", "21", "22", "23"}


def _dumped(desk: Desk, folder: Path) -> list[tuple[Any, Any]]:
    entries = [
        records.Record(n, 1_700_000_000_000, key, value)
        for n, (key, value, _) in enumerate(desk.store.log)
    ]
    segment = folder / f"{0:020}.log"
    segment.write_bytes(records.build(entries))
    dump = java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", str(segment), "--offsets-decoder", "--print-data-log"),
        jvm=QUICK_JVM,
    )
    assert dump.returncode == 0, dump.stderr
    found = [(json.loads(key), _payload(text)) for key, text in DECODED.findall(dump.stdout)]
    assert len(found) == len(entries), dump.stdout
    return found


def _payload(text: str) -> Any:
    return None if text.startswith("<") else json.loads(text)
