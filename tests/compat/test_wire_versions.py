"""ApiVersions, and that every advertised version of every API answers bytes that decode."""

from __future__ import annotations

from .cluster import Cluster
from .wire import Wire, ErrorCode

def test_x(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    print(wire.versions)
