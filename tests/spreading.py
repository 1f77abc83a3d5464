"""How `make test` spreads the tests over its workers; called by conftest.

A file stays in one worker, so that what it starts is started once. Some folders stay together as
well, because their tests share a server that takes seconds to start: one Apache Kafka for all of
them, instead of one per worker. The comparison with Kafka runs as two such parts, one per server.
What takes longest begins first; otherwise, at the end, all would wait for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from xdist.scheduler.loadscope import LoadScopeScheduling

COMPAT = "tests/compat/"
TOGETHER = (
    "tests/ecosystem/",
    "tests/edges/bridges/",
    "tests/security/",
    "tests/broker/settings/",
    "tests/console/",
    "tests/values/",
)
TOGETHER_BELOW = ("tests/spark/", "tests/capture/", "tests/views/", "tests/processing/")
"""Here it is each folder below that shares a Spark session or a database."""
SNIPPETS = "tests/docs/test_snippets.py"
"""Every page starts all that it needs: each for itself, but those with Spark share one Java.
Spark gives its Python processes ten seconds to start, which two of it on two cores can exceed."""
MATRIX = "tests/simulation/matrix/test_matrix.py"
"""Many cells that share nothing."""
_WITH_SPARK = re.compile("with_spark")
LONGEST_FIRST = (
    "tests/docs/test_snippets.py with Spark",
    "tests/processing/windows",
    # Before all that may leave a session behind: each of these folders has a Java of its own.
    "tests/spark/run",
    "tests/spark/",
    "tests/views/tables",
    "tests/console/",
    "tests/values/",
    "tests/compat/ on headwater",
    "tests/views/kills",
    "tests/views/core",
    "tests/project/test_demo_whole.py",
    "tests/views/registry",
    "tests/processing/",
    "tests/views/",
    "tests/ecosystem/",
    "tests/compat/ on kafka",
    "tests/edges/bridges/",
    "tests/project/test_kills",
    "tests/project/test_promote",
    "tests/project/test_up.py",
    "tests/project/test_secrets.py",
    "tests/capture/",
    "tests/examples/test_events_views.py",
    "tests/events/test_kills.py",
    "tests/events/test_kafka.py",
    "tests/cli/test_demo.py",
    "tests/security/",
    "tests/crash/test_transactions.py",
    "tests/fuzz/",
    "tests/crash/test_kill.py",
    "tests/simulation/test_log.py",
    "tests/simulation/",
    "tests/crash/",
    "tests/compat/",
    "tests/broker/settings/",
    "tests/broker/test_lost_catalogue.py",
    "tests/broker/test_memory.py",
    "tests/broker/test_excision.py",
    "tests/broker/inspection/test_commands.py",
    "tests/log/test_recovery.py",
    "tests/log/test_compaction_model.py",
    "tests/record/",
    "tests/broker/test_amplification.py",
    "tests/broker/test_wire.py",
    "tests/testing/",
    "tests/cli/",
    "tests/broker/test_restart.py",
    "tests/broker/test_connections.py",
    "tests/broker/test_backpressure.py",
    "tests/broker/quotas/",
    "tests/broker/groups/",
    "tests/broker/test_catalogue.py",
    "tests/broker/",
)
_SERVER = re.compile(r"[\[-](kafka|headwater)[\]-]")


def part_of(nodeid: str) -> str:
    """What runs in one worker together with this test."""
    path, _, name = nodeid.partition("::")
    if path.startswith(COMPAT):
        server = _SERVER.search(name)
        return f"{COMPAT} on {server[1]}" if server else path
    if path == MATRIX:
        return nodeid
    if path == SNIPPETS:
        return f"{SNIPPETS} with Spark" if _WITH_SPARK.search(name) else nodeid
    if path.startswith(TOGETHER_BELOW):
        return "/".join(path.split("/")[:3])
    return next((folder for folder in TOGETHER if path.startswith(folder)), path)


def rank(nodeid: str) -> int:
    """Its place in the order of what begins first."""
    part = part_of(nodeid)
    places = (n for n, prefix in enumerate(LONGEST_FIRST) if part.startswith(prefix))
    return next(places, len(LONGEST_FIRST))


def scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler.loadscope import LoadScopeScheduling  # there only where it is used

    class ByPart(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part_of(nodeid)

    config.option.loadscopereorder = False  # the order is that of `rank`
    return ByPart(config, log)
