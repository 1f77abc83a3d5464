"""Topics that the file names as destinations are made; those that it reads from are not."""

from __future__ import annotations

from headwater.client.log import Log
from headwater.edges.app import named
from headwater.edges.config import read
from tests.edges.running import edges, until


def test_destinations_are_those_of_hooks_bridges_and_alerts():
    document = {
        "hooks": {"pay": {"topic": "payments", "style": "plain", "secret": "s" * 32}},
        "bridges": {
            "in": {"from": "statsd://127.0.0.1:0", "to": "topic:metrics"},
            "out": {"from": "topic:orders", "to": "zmq+pub://127.0.0.1:1"},
        },
    }
    assert named(read(document)[0]) == ["metrics", "payments"]


def test_a_bridge_has_its_topic_from_the_start(log: Log):
    document = {"bridges": {"in": {"from": "statsd://127.0.0.1:0", "to": "topic:made-here"}}}
    with edges(log.bootstrap, document) as running:
        services = running.context.status.services
        until(lambda: "bridges.in" in services, "the bridge to start")
        assert "made-here" in log.admin.list_topics(timeout=60).topics
        assert services["bridges.in"].failures == 0
