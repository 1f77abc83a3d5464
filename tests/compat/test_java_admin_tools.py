"""Kafka's own administration tools (4.3) against both servers; each starts a JVM, so there are few."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .cluster import Cluster
from .test_java_tools import TOOLS, Tool, class_archive, tool  # noqa: F401  (fixtures)

CONFIG = "kafka.admin.ConfigCommand"


def test_features_and_quorum(tool: Tool) -> None:  # noqa: F811
    described = tool(f"{TOOLS}.FeatureCommand", "describe")
    level = re.search(r"metadata\.version\s.*FinalizedVersionLevel: (\S+)", described)
    assert level is not None
    assert level[1] == "4.3-IV0"
    assert re.search(r"transaction\.version\s.*FinalizedVersionLevel: 2\s", described)
    refused = tool(f"{TOOLS}.FeatureCommand", "downgrade", "--metadata", "4.0-IV3", fails=True)
    assert "Refusing to perform the requested downgrade" in refused
    quorum = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", quorum)
    assert re.search(r'CurrentVoters:\s+\[\{"id": 1,', quorum)
    assert re.search(r"CurrentObservers:\s+\[\]", quorum)


def test_elections_and_reassignments(
    cluster: Cluster,
    tool: Tool,  # noqa: F811
    topic: str,
    tmp_path: Path,
) -> None:
    cluster.create_topic(topic, partitions=2)
    choice = ["--election-type", "preferred", "--topic", topic, "--partition", "1"]
    elected = tool(f"{TOOLS}.LeaderElectionCommand", *choice)
    assert f"Valid replica already elected for partitions {topic}-1" in elected
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": each, "replicas": [1]} for each in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    command, file = (
        f"{TOOLS}.reassign.ReassignPartitionsCommand",
        ["--reassignment-json-file", str(plan)],
    )
    begun = tool(command, "--execute", *file)
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in begun
    assert f"Reassignment of partition {topic}-1 is completed." in tool(command, "--verify", *file)


def test_client_metrics_and_group_configs(tool: Tool, group: str) -> None:  # noqa: F811
    command, name = f"{TOOLS}.ClientMetricsCommand", ["--name", group]
    tool(command, "--alter", *name, "--interval", "100000", "--match", "client_id=nobody")
    described = tool(command, "--describe", *name)
    assert "interval.ms=100000" in described
    assert "match=client_id=nobody" in described
    assert "deleted client metrics config" in tool(command, "--delete", *name).lower()
    entity = ["--entity-type", "groups", "--entity-name", group]
    tool(CONFIG, *entity, "--alter", "--add-config", "share.delivery.count.limit=7")
    found = tool(CONFIG, *entity, "--describe")
    assert "share.delivery.count.limit=7" in found
    assert "DEFAULT_CONFIG:group.share.delivery.count.limit=5" in found


def test_quotas_of_users_and_clients(tool: Tool, group: str) -> None:  # noqa: F811
    entity = ["--entity-type", "users", "--entity-name", group]
    entity += ["--entity-type", "clients", "--entity-name", "reports"]
    tool(CONFIG, *entity, "--alter", "--add-config", "producer_byte_rate=1000000")
    described = tool(CONFIG, *entity, "--describe")
    assert "producer_byte_rate=1000000" in described
    tool(CONFIG, *entity, "--alter", "--delete-config", "producer_byte_rate")
