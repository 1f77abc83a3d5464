"""Kafka's own `DumpLogSegments --offsets-decoder` reads what the coordinator wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.groups.records import group_key
from headwater.errors import HeadwaterError
from headwater.record import records
from headwater.testing.apache_kafka import java_tool, kafka_jars

from .desk import Desk

MakeDesk = Callable[..., Desk]

DECODED = re.compile(r"key: (\{.*?\}) payload: (.*)$", re.MULTILINE)


async def test_kafka_reads_our_records(make_desk: MakeDesk, tmp_path: Path) -> None:
    from headwater.broker.groups.committed import Commit, Committer

    try:
        kafka_jars()
    except HeadwaterError as missing:
        pytest.skip(f"Kafka's tools cannot run here: {missing}")
    desk = make_desk()
    member = await desk.stable()
    who = Committer("g", member, None, 1)
    await desk.groups.offsets.commit(who, [Commit("t", 0, 7, 2, "note")])
    await desk.groups.offsets.commit(Committer("h", retention_ms=5), [Commit("t", 1, 8)])
    await desk.groups.removal.delete_group("h")
    entries = [
        records.Record(n, 1_700_000_000_000, key, value)
        for n, (key, value, _) in enumerate(desk.store.log)
    ]
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(records.build(entries))

    dump = java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", str(segment), "--offsets-decoder", "--print-data-log"),
    )

    assert dump.returncode == 0, dump.stderr
    found = [(json.loads(key), _payload(text)) for key, text in DECODED.findall(dump.stdout)]
    assert len(found) == len(entries), dump.stdout
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


def _payload(text: str) -> Any:
    return None if text.startswith("<") else json.loads(text)
