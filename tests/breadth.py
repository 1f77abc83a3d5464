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
    "tests/capture/core/",
    "tests/capture/sqlite/",
    "tests/compat/test_confluent_produce.py",
    "tests/compat/test_confluent_consume.py",
    "tests/compat/test_kcat.py",
    "tests/compat/test_ledger.py",
    "tests/compat/test_transactions.py",
    "tests/crash/test_kill.py",
    "tests/docs/test_commands.py",
    "tests/docs/test_newcomer.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_words.py",
    "tests/edges/feeds/",
    "tests/edges/hooks/",
    "tests/edges/http/",
    "tests/edges/rest/",
    "tests/edges/webhooks/",
    "tests/edges/test_",
    "tests/events/test_a",
    "tests/events/test_c",
    "tests/events/test_f",
    "tests/events/test_kills.py",
    "tests/events/test_s",
    "tests/examples/test_dual_writes.py",
    "tests/oidc/",
    "tests/project/test_file.py",
    "tests/project/test_hello.py",
    "tests/project/test_secrets.py",
    "tests/schemas/test_access.py",
    "tests/schemas/test_avro_",
    "tests/schemas/test_clients.py",
    "tests/schemas/test_compatibility.py",
    "tests/schemas/test_interface.py",
    "tests/schemas/test_values.py",
    "tests/security/test_matrix.py",
    "tests/security/test_login.py",
    "tests/security/test_parts.py",
    "tests/security/test_rules.py",
    "tests/simulation/matrix/",
    "tests/views/core/test_",
    "tests/views/sqlite/",
)


def mark(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.nodeid.startswith(CORE):
            item.add_marker(pytest.mark.wide)
