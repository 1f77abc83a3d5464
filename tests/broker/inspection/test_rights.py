"""A damaged batch of the catalogue: no repair gives a right back that was taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.broker.inspection.findings import Severity
from headwater.broker.security import scram
from headwater.broker.security.acls import Acl
from headwater.record import records
from tests.broker.inspection.world import batches_of, checked, flip, mended, patch
from tests.broker.serving import Serving, serving

SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}
READS = Acl(2, "payroll", 3, "User:mallory", "*", 3, 3)
MAY_NOT = READS._replace(permission=2)
OTHER = READS._replace(principal="User:ann")
Change = Callable[[Serving], None]


def adds(acl: Acl) -> Change:
    return lambda broker: broker.run(broker.broker.authorizer.add(acl))


def removes(acl: Acl) -> Change:
    return lambda broker: broker.run(broker.broker.authorizer.remove(acl))


def password(user: str, text: str) -> Change:
    key = scram.salted(scram.SHA_256, text, b"salt", 4096)
    made = scram.credential(scram.SHA_256, key, b"salt", 4096)
    return lambda broker: broker.run(broker.broker.credentials.put(scram.SHA_256, user, made))


def no_user(user: str) -> Change:
    return lambda broker: broker.run(broker.broker.credentials.remove(scram.SHA_256, user))


def log_of(data: Path) -> Path:
    (path,) = (data / "__headwater_catalogue-0").glob("*.log")
    return path


def changed(data: Path, *changes: Change) -> tuple[int, bytes]:
    """Where the record of the last change lies, and its bytes; there is another behind it."""
    with serving(data, SETTINGS) as broker:
        for change in changes:
            change(broker)
        count = broker.broker.catalogue.epoch
        broker.create(f"later-{count}")
    position, header = batches_of(log_of(data))[count - 1]
    return position, log_of(data).read_bytes()[position : position + header.size]


def spoil(data: Path, position: int, size: int = 2) -> None:
    patch(log_of(data), position, bytes([0xA5]) * size)


def acls(data: Path) -> set[Acl]:
    with serving(data, SETTINGS) as broker:
        return set(broker.broker.authorizer.acls)


def users(data: Path) -> set[str]:
    with serving(data, SETTINGS) as broker:
        return set(broker.broker.credentials.users())


def test_a_permission_that_was_taken_away_stays_away(data: Path) -> None:
    position, batch = changed(data, adds(OTHER), adds(READS), removes(READS))
    spoil(data, position + len(batch) - 2)
    (finding,) = [each for each in checked(data).wrong if each.kind == "batch-damaged"]
    assert "User:mallory" in finding.means
    assert "readers" not in finding.means
    mended(data)
    assert acls(data) == {OTHER}
    assert checked(data).findings == []


@pytest.mark.parametrize("before", [[], [adds(MAY_NOT)]])
def test_what_was_denied_stays_denied(data: Path, before: list[Change]) -> None:
    last = removes(MAY_NOT) if before else adds(MAY_NOT)
    position, batch = changed(data, adds(READS), *before, last)
    spoil(data, position + len(batch) - 2)
    mended(data)
    assert acls(data) == {READS, MAY_NOT}


@pytest.mark.parametrize("last", [password("ann", "new"), no_user("ann")])
def test_no_password_that_was_replaced_opens_again(data: Path, last: Change) -> None:
    position, batch = changed(data, password("bob", "his"), password("ann", "old"), last)
    spoil(data, position + len(batch) - 2)
    outcome = mended(data)
    assert users(data) == {"bob"}
    assert any("scram/SCRAM-SHA-256/ann" in each.says for each in outcome.done)


def test_a_right_that_was_said_again_behind_the_damage_stays(data: Path) -> None:
    position, batch = changed(data, adds(READS), removes(READS))
    with serving(data, SETTINGS) as broker:
        adds(READS)(broker)
    spoil(data, position + len(batch) - 2)
    mended(data)
    assert acls(data) == {READS}


@pytest.mark.parametrize("at", [17, 40, -20, -1])
def test_one_wrong_bit_is_set_right_and_nothing_is_lost(data: Path, at: int) -> None:
    position, batch = changed(data, adds(READS), removes(READS))
    whole = log_of(data).read_bytes()
    flip(log_of(data), position + at % len(batch), 2)
    mended(data)
    assert log_of(data).read_bytes() == whole
    assert acls(data) == set()


def test_where_nobody_can_tell_what_was_lost_the_rights_that_may_be_older_are_named(
    data: Path,
) -> None:
    position, batch = changed(
        data, adds(READS), password("ann", "old"), adds(OTHER), removes(OTHER)
    )
    with serving(data, SETTINGS) as broker:
        adds(MAY_NOT)(broker)
    spoil(data, position + 61, len(batch) - 61)
    (finding,) = [each for each in checked(data).wrong if each.kind == "batch-damaged"]
    for name in ("User:mallory", "User:ann", "scram/SCRAM-SHA-256/ann"):
        assert name in finding.means
    mended(data)
    (note,) = checked(data).findings
    assert (note.kind, note.severity) == ("rights-uncertain", Severity.NOTE)
    assert "User:ann" in note.means
    assert f"{MAY_NOT.permission}]" not in note.means, "that was said afterwards"


def test_damage_to_a_topic_s_record_says_nothing_of_rights(data: Path) -> None:
    def topic(broker: Serving) -> None:
        broker.create("orders", cleanup_policy="compact")

    position, batch = changed(data, adds(READS), topic)
    spoil(data, position + len(batch) - 9)
    (finding,) = [each for each in checked(data).wrong if each.kind == "batch-damaged"]
    assert "topic/orders" in finding.means
    mended(data)
    assert acls(data) == {READS}
    assert checked(data).findings == []
    with serving(data) as broker:
        assert "orders" in broker.broker.catalogue.topics


def test_a_deleted_topic_does_not_come_back(data: Path) -> None:
    def deleted(broker: Serving) -> None:
        broker.create("orders")
        broker.run(broker.broker.topics.delete("orders"))

    position, batch = changed(data, deleted)
    assert records.decode(batch)[0].key == b"topic/orders"
    spoil(data, position + len(batch) - 2)
    mended(data)
    with serving(data) as broker:
        assert "orders" not in broker.broker.catalogue.topics


def test_no_producer_id_is_given_again_where_the_catalogue_lost_how_far_it_was(
    data: Path,
) -> None:
    given = []

    def another(broker: Serving) -> None:
        given.append(broker.run(broker.broker.catalogue.producer_ids.next()))

    changed(data, another)
    position, batch = changed(data, another)
    assert records.decode(batch)[0].key == b"producer-ids"
    spoil(data, position + 61, len(batch) - 61)
    mended(data)
    with serving(data) as broker:
        another(broker)
    assert given == sorted(given)
    assert given[-1] > given[-2] + 1000
