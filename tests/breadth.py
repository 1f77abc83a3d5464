"""Which tests `make test` runs, and which `make test-wide` does; called by conftest.

`make test` is for whoever changes something: within ten minutes on two cores, every package, with one real
server of a kind, real kills and one Spark. `make test-wide` has the rest: every database and its versions,
Apache Kafka and its programs, browsers, every store, all of Spark, kills of everything. CI runs both, so
nothing lands that only one of them would have found. A test file that is not named here is among the wide.
"""

from __future__ import annotations

import pytest

CORE = (
    "tests/broker/",
    "tests/browse/",
    "tests/cli/",
    "tests/client/",
    "tests/installs/",
    "tests/log/",
    "tests/record/",
    "tests/testing/",
    "tests/tools/",
    "tests/capture/core/test_envelope.py",
    "tests/capture/sqlite/test_changes.py",
    "tests/capture/sqlite/test_snapshot.py",
    "tests/compat/test_confluent_consume.py",
    "tests/compat/test_confluent_produce.py",
    "tests/compat/test_ledger.py",
    "tests/crash/test_kill.py",
    "tests/docs/test_commands.py",
    "tests/docs/test_newcomer.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_words.py",
    "tests/edges/feeds/test_topics.py",
    "tests/edges/hooks/",
    "tests/edges/http/test_cloud_events.py",
    "tests/edges/http/test_guard.py",
    "tests/edges/http/test_once.py",
    "tests/edges/http/test_post.py",
    "tests/edges/http/test_tokens.py",
    "tests/edges/rest/",
    "tests/edges/webhooks/test_delivering.py",
    "tests/events/test_codec.py",
    "tests/events/test_command_ids.py",
    "tests/events/test_fencing.py",
    "tests/events/test_snapshots.py",
    "tests/events/test_saga.py",
    "tests/oidc/",
    "tests/project/test_file.py",
    "tests/project/test_hello.py",
    "tests/schemas/test_access.py",
    "tests/schemas/test_clients.py",
    "tests/schemas/test_compatibility.py",
    "tests/schemas/test_interface.py",
    "tests/security/test_matrix.py",
    "tests/security/test_parts.py",
    "tests/simulation/matrix/test_matrix.py::test_nothing_acknowledged_is_lost[",
    "tests/views/core/test_running_into_stores.py",
    "tests/views/core/test_transactions.py",
    "tests/views/sqlite/",
)


def mark(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.nodeid.startswith(CORE):
            item.add_marker(pytest.mark.wide)
