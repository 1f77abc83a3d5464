"""What share groups read counts like what others read."""

from __future__ import annotations

from pathlib import Path

from headwater.broker.quotas.enforcement import FETCH, SHARE_FETCH
from tests.broker.serving import serving


def test_a_share_fetch_is_charged_to_the_same_quota_as_a_fetch(data: Path) -> None:
    with serving(data) as broker:
        quotas = broker.broker.quotas
        owner = (("client-id", "reader"),)
        broker.run(quotas.put(owner, {"consumer_byte_rate": 10_000.0}))

        def charged(key: int) -> int:
            charge = quotas.charge("User:ANONYMOUS", "reader", key, (100, 1_000_000), 0.0)
            assert not charge.hold_back, "what was acquired has to arrive"
            return charge.throttle_ms

        first = broker.call(lambda: charged(SHARE_FETCH))
        assert first > 0
        after = broker.call(
            lambda: quotas.charge("User:ANONYMOUS", "reader", FETCH, (100, 1_000_000), 0.0)
        )
        assert after.hold_back
        assert after.throttle_ms >= first
