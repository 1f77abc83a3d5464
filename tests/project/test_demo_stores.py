"""The demo reads a view's store while the view writes to it."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from headwater.project.demo.shop import stores
from tests.views.redis.server import redis_server

PLACE = "order_list:v1:"


class RowGoneMeanwhile(redis.Redis):
    """Somebody deletes a row after its key was listed and before it is read."""

    def pipeline(self, *args: Any, **more: Any) -> Any:
        self.delete(f"{PLACE}2")
        return super().pipeline(*args, **more)


def test_a_row_that_is_deleted_while_the_cache_is_read_is_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with redis_server() as server:
        with server.client() as client:
            client.set("order_list:current", PLACE)
            for number in (1, 2, 3):
                client.hset(f"{PLACE}{number}", mapping={"id": number, "item": "canoe"})
        monkeypatch.setattr(
            stores,
            "_client",
            lambda rest: RowGoneMeanwhile.from_url(f"redis:{rest}", decode_responses=True),
        )
        found = stores.rows(server.url, "order_list")
    assert sorted(row["id"] for row in found) == ["1", "3"]
