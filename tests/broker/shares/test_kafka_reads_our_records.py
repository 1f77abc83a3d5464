"""Kafka's own `DumpLogSegments --share-group-state-decoder` reads what the share coordinator wrote."""

from __future__ import annotations

from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.shares.state import Ack
from headwater.broker.shares.state_topic import NAME, kafka_uuid
from headwater.testing.apache_kafka import QUICK_JVM, java_tool
from tests.compat.missing import require_kafka_tools

from .test_coordinator import owner, settle, take


async def test_kafka_reads_our_records(tmp_path: Path) -> None:
    require_kafka_tools()
    async with Broker(tmp_path, "127.0.0.1:0") as node:
        found = await owner(node, "workers")
        take(found, "a", 10)
        await settle(found, "a", 2, 4, Ack.ACCEPT)
        topic_id = kafka_uuid(found.key.topic_id)
        await node.shares.forget([found.key])
    segment = next((tmp_path / f"{NAME}-0").glob("*.log"))
    dump = java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", str(segment), "--share-group-state-decoder", "--print-data-log"),
        jvm=QUICK_JVM,
    )
    assert dump.returncode == 0, dump.stderr
    assert "Error" not in dump.stdout, dump.stdout
    snapshot, update, tombstone = (
        line for line in dump.stdout.splitlines() if '"groupId":"workers"' in line
    )
    assert f'"topicId":"{topic_id}"' in snapshot
    assert '"startOffset":0' in snapshot
    assert '{"firstOffset":2,"lastOffset":4,"deliveryState":2,"deliveryCount":1}' in update
    assert '"deliveryCompleteCount":0' in update
    assert "<DELETE>" in tombstone
