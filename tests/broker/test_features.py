"""Features are lowered, raised, remembered, and mean what they say."""

from __future__ import annotations

from pathlib import Path

from tests.broker.serving import serving
from tests.compat.streaming import Streaming, counting
from tests.compat.wire import ErrorCode, Wire

UPGRADE, SAFE_DOWNGRADE = 1, 2
SHUT = ErrorCode.unsupported_version


def set_level(wire: Wire, feature: str, level: int, kind: int) -> None:
    update = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
    answer = wire.ask("update_features", 1, timeout=5000, feature_updates=[update])
    assert answer.error_code is ErrorCode.none, answer


def finalized(wire: Wire) -> dict[str, int]:
    software = {"client_software_name": "wire", "client_software_version": "1"}
    answer = wire.ask("api_versions", 4, **software)
    return {each.name: each.max_version_level for each in answer.finalized_features}


def test_a_lowered_feature_stays_so_over_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served, served.wire() as wire:
        before = finalized(wire)
        set_level(wire, "transaction.version", 1, SAFE_DOWNGRADE)
        assert finalized(wire) == {**before, "transaction.version": 1}
    with serving(tmp_path / "data") as served, served.wire() as wire:
        assert finalized(wire)["transaction.version"] == 1
        set_level(wire, "transaction.version", 2, UPGRADE)
        assert finalized(wire) == before


def test_what_is_switched_off_is_not_answered_until_it_is_on_again(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served, served.wire() as wire:

        def errors() -> list[ErrorCode]:
            member = {"member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0}
            session = {"member_id": "AAAAAAAAAAAAAAAAAAAAAA", "share_session_epoch": 0}
            topics = {"subscribed_topic_names": ("t",)}
            whole = {"rebalance_timeout": 5000, "topic_partitions": (), **topics}
            return [
                wire.ask("consumer_group_heartbeat", group_id="g", **member, **whole).error_code,
                wire.ask("consumer_group_describe", group_ids=("g",)).groups[0].error_code,
                Streaming(wire, "w", "m", counting("t", "w")).join().error_code,
                wire.ask("streams_group_describe", group_ids=("w",)).groups[0].error_code,
                wire.ask("share_group_heartbeat", group_id="s", **member, **topics).error_code,
                wire.ask("share_group_describe", group_ids=("s",)).groups[0].error_code,
                wire.ask("share_fetch", 1, group_id="s", **session).error_code,
                wire.ask("share_acknowledge", 1, group_id="s", **session).error_code,
                wire.ask("describe_share_group_offsets", groups=[{"group_id": "s"}])
                .groups[0]
                .error_code,
                wire.ask("alter_share_group_offsets", group_id="s").error_code,
                wire.ask("delete_share_group_offsets", group_id="s").error_code,
            ]

        for feature in ("group.version", "share.version", "streams.version"):
            set_level(wire, feature, 0, SAFE_DOWNGRADE)
        assert "share.version" not in finalized(wire)
        assert set(errors()) == {SHUT}
        for feature in ("group.version", "share.version", "streams.version"):
            set_level(wire, feature, 1, UPGRADE)
        assert SHUT not in errors()


def test_a_kind_of_group_that_is_not_served_is_shut(tmp_path: Path) -> None:
    settings = {"group.coordinator.rebalance.protocols": "classic,consumer"}
    with serving(tmp_path / "data", settings) as served, served.wire() as wire:
        assert Streaming(wire, "w", "m", counting("t", "w")).join().error_code is SHUT
        found = wire.ask("consumer_group_describe", group_ids=("g",)).groups[0]
        assert found.error_code is ErrorCode.group_id_not_found
