"""Which tests `make test` runs against Apache Kafka as well; called by conftest.

A test that runs once per server states what Apache Kafka does and asks the same of headwater. That
Kafka does it proves the statement, which changes only when somebody changes the test or Kafka's
version; that headwater does it is what every change may break. So of each file `make test` asks
Kafka the first test, which shows that both servers are asked the same way, and `make soak` asks it
all of them. Every version of every API is compared always, and so are the files of `WHOLE`, where
our own code runs on Apache Kafka and that is what is promised.

One test alone, named by its id, is always run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

WHOLE = (
    "tests/compat/test_wire_versions.py",
    "tests/spark/sink/test_kills.py",
    "tests/spark/sink/test_stream.py",
)
_KAFKA = re.compile(r"(?<=[\[-])(apache )?kafka(?=[\]-])")


def repeated(nodeids: Iterable[str]) -> set[str]:
    """Those that ask Apache Kafka what they ask headwater, after the first of their file."""
    found: set[str] = set()
    asked: set[str] = set()
    known = list(nodeids)
    ours = set(known)
    for nodeid in known:
        path, _, name = nodeid.partition("::")
        of_headwater = f"{path}::{_KAFKA.sub('headwater', name)}"
        if of_headwater == nodeid or of_headwater not in ours or path in WHOLE:
            continue
        if path in asked:
            found.add(nodeid)
        asked.add(path)
    return found


def leave_to_soak(items: list[pytest.Item]) -> None:
    short = [item for item in items if not item.get_closest_marker("soak")]
    later = repeated(item.nodeid for item in short)
    for item in short:
        if item.nodeid in later:
            item.add_marker(pytest.mark.soak)
