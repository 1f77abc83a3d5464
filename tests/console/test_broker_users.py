"""Many who sign in at once: a few are asked about, some wait, and the rest is sent away."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.console.broker_users import WAITING_MAX, BrokerUsers, TooManyAtOnce
from headwater.project.roles import Grants, Role


class Slow(BrokerUsers):
    """Of a broker that takes its time."""

    def __init__(self) -> None:
        client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
        super().__init__("127.0.0.1:1", client, Grants({"ann": Role.READER}))
        self.answers = threading.Event()

    def lets_in(self, name: str, password: str) -> bool:
        return self.answers.wait(60)


def test_only_so_many_wait_to_be_signed_in() -> None:
    async def play() -> None:
        users = Slow()
        waiting = [asyncio.create_task(users.visitor("ann", "pw")) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)  # each has begun
        try:
            with pytest.raises(TooManyAtOnce, match="are signing in just now"):
                await users.visitor("ann", "pw")
        finally:
            users.answers.set()
        assert all(await asyncio.gather(*waiting))
        assert await users.visitor("ann", "pw") is not None

    asyncio.run(play())


def test_of_one_without_a_role_no_password_is_found_out() -> None:
    class Told(BrokerUsers):
        asked: list[str]

        def lets_in(self, name: str, password: str) -> bool:
            self.asked.append(password)
            return password == "right"

    users = Told(
        "127.0.0.1:1", {"security.protocol": "SASL_PLAINTEXT"}, Grants({"ann": Role.READER})
    )
    users.asked = []
    assert asyncio.run(users.visitor("bob", "right")) is None
    assert asyncio.run(users.visitor("ann", "right")) is not None
    assert users.asked[0] != "right" and users.asked[1] == "right"
