"""A Fetch that waits is answered by what its client may read then, not by what it might when it asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.broker.security.acls import Acl
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import LONG_MS, until
from tests.compat.wire import ErrorCode, Wire

READ, WRITE, CREATE = 3, 4, 5
SETTINGS = {"authorizer.class.name": "acl"}


def allowed(topic: str, operation: int) -> Acl:
    return Acl(2, topic, 3, "User:ANONYMOUS", "*", operation, 3)


def fetch_and_wait(wire: Wire, version: int, topics: dict[str, Any], epoch: int) -> None:
    part = {"partition": 0, "partition_max_bytes": 1000}
    asked = [
        {"topic_id" if version >= 13 else "topic": topic_id if version >= 13 else name}
        | {"partitions": [part]}
        for name, topic_id in topics.items()
    ]
    wire.send(
        "fetch",
        version,
        lenient=True,
        replica_id=-1,
        max_wait=LONG_MS,
        min_bytes=1,
        max_bytes=1000,
        session_epoch=epoch,
        topics=asked,
    )


def is_watched(broker: Serving, topic: str) -> bool:
    partition = broker.broker.partition(topic, 0)
    assert partition is not None
    return broker.call(lambda: bool(partition.watchers))


@pytest.mark.parametrize("epoch", [-1, 0], ids=["alone", "session"])
@pytest.mark.parametrize("version", [12, 13, 17])
def test_what_may_not_be_read_any_more_is_not_in_the_answer(
    tmp_path: Path, version: int, epoch: int
) -> None:
    with serving(tmp_path, SETTINGS) as broker, broker.wire() as wire, broker.wire() as other:
        authorizer = broker.broker.authorizer
        assert authorizer is not None
        for topic in ("secret", "open"):
            for operation in (READ, WRITE, CREATE):
                broker.run(authorizer.add(allowed(topic, operation)))
        ids = {topic: broker.create(topic) for topic in ("secret", "open")}
        fetch_and_wait(wire, version, ids, epoch)
        until(lambda: is_watched(broker, "secret"), "the Fetch to wait")
        broker.run(authorizer.remove(allowed("secret", READ)))
        assert produce(other, "secret", batch([(None, b"x")])).error_code is ErrorCode.none
        answer = wire.receive()[1]
        rows = {
            getattr(row, "topic_id", None) or row.topic: row.partitions[0]
            for row in answer.responses
        }
        hidden = rows[ids["secret"] if version >= 13 else "secret"]
        assert hidden.error_code is ErrorCode.topic_authorization_failed
        assert not hidden.records
        assert rows[ids["open"] if version >= 13 else "open"].error_code is ErrorCode.none
        sessions = broker.broker.sessions
        assert not broker.call(lambda: sessions.topics_of(answer.session_id))
        fetch_and_wait(wire, version, {"open": ids["open"]}, -1)
        assert produce(other, "open", batch([(None, b"y")])).error_code is ErrorCode.none
        assert wire.receive()[1].responses[0].partitions[0].records
