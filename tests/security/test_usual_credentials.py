"""What an invented credential looks like is what most users have, counted as they come and go."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from headwater.broker.security import scram
from headwater.broker.security.credentials import Credentials
from headwater.broker.security.scram import Credential
from tests.broker.serving import serving


def _usual(credentials: Credentials) -> tuple[set[int], set[str]]:
    """Which numbers of iterations of SHA-256, and which mechanisms, most users have, counted anew."""
    users = credentials.users().values()
    rounds = Counter(k[scram.SHA_256.name].iterations for k in users if scram.SHA_256.name in k)
    first = Counter(
        (scram.SHA_512 if scram.SHA_512.name in k else scram.SHA_256).name for k in users
    )
    return (
        {n for n, count in rounds.items() if count == max(rounds.values())},
        {n for n, count in first.items() if count == max(first.values())},
    )


def test_an_invented_credential_is_like_most_after_any_changes(tmp_path: Path) -> None:
    dice = random.Random(15)
    with serving(tmp_path) as broker:
        credentials = broker.broker.credentials

        async def change() -> None:
            for _ in range(300):
                mechanism = dice.choice([scram.SHA_256, scram.SHA_512])
                user = f"user-{dice.randrange(12)}"
                if dice.random() < 0.4:
                    await credentials.remove(mechanism, user)
                else:
                    kept = Credential(b"s" * 24, b"k", b"k", dice.choice([4096, 8192, 16384]))
                    await credentials.put(mechanism, user, kept)
                rounds, first = _usual(credentials)
                invented = credentials.find(scram.SHA_256, "nobody")
                assert invented.iterations in (rounds or {scram.ITERATIONS_MIN})
                assert credentials._usual_mechanism.name in (first or {scram.SHA_256.name})

        broker.run(change())


def test_a_change_does_not_look_at_all_users(tmp_path: Path) -> None:
    class Counted(dict[tuple[str, str], Credential]):
        def items(self) -> object:  # type: ignore[override]
            raise AssertionError("all users were looked at")

        __iter__ = values = keys = items  # type: ignore[assignment]

    with serving(tmp_path) as broker:
        credentials = broker.broker.credentials
        credentials._kept = Counted(credentials._kept)
        broker.run(credentials.put(scram.SHA_256, "ann", Credential(b"s", b"k", b"k", 8192)))
        assert credentials.find(scram.SHA_256, "nobody").iterations == 8192
