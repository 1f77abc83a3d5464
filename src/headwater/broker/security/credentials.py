"""The users' keys: a view of the catalogue, and the users of a PLAIN line in the settings.

`login` looks users up here; the credential APIs and `headwater users` write here. In the catalogue:

    scram/MECHANISM/USER    {"salt": b64, "stored_key": b64, "server_key": b64, "iterations": N}
    secret/invented         {"value": b64}      salts for users that do not exist come from it

A password must never be kept: only its keys. PLAIN passwords are checked against the same keys; a
user needs one of the two mechanisms' credentials for that, and which one does not matter.

A name that nobody has gets an invented credential, always the same one, so that neither the answers
nor the time they take tell who exists.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.broker.catalogue import Catalogue
from headwater.broker.security import scram
from headwater.broker.security.scram import Credential, Mechanism
from headwater.fair_queue import FairQueue

T = TypeVar("T")

KIND = "scram"
Key = tuple[str, str]
"""(mechanism, user)."""


class Credentials:
    """Who can log in."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: dict[Key, Credential] = {}
        self._secret = os.urandom(32)  # until there is a lasting one
        self._thread = ThreadPoolExecutor(1, "headwater-password")
        self._turns = FairQueue()
        self._usual_iterations: dict[str, int] = {}
        self._usual_mechanism = scram.SHA_256
        self._iterations: dict[str, Counter[int]] = defaultdict(Counter)
        self._preferred: Counter[str] = Counter()
        """How many users have what, so that a change need not look at all of them."""
        self._choose(*scram.MECHANISMS)
        catalogue.follow(KIND, self._apply)
        catalogue.follow("secret", self._apply_secret)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def prepare(self) -> None:
        """Make the lasting secret, where there is none."""
        if not self._catalogue.has("secret", "invented"):
            value = {"value": b64encode(os.urandom(32)).decode()}
            await self._catalogue.put("secret", "invented", value)

    # ---- the view --------------------------------------------------------------------------------

    def _apply(self, name: str, value: Mapping[str, object] | None) -> None:
        mechanism, _, user = name.partition("/")
        self._count(mechanism, user, -1)
        if value is None:
            self._kept.pop((mechanism, user), None)
        else:
            self._kept[mechanism, user] = Credential(
                b64decode(str(value["salt"])),
                b64decode(str(value["stored_key"])),
                b64decode(str(value["server_key"])),
                int(str(value["iterations"])),
            )
        self._count(mechanism, user, 1)
        self._choose(mechanism)

    def _count(self, mechanism: str, user: str, by: int) -> None:
        kept = self._kept.get((mechanism, user))
        if kept is not None:
            _add(self._iterations[mechanism], kept.iterations, by)
        preferred = next((m.name for m in _ORDER if (m.name, user) in self._kept), None)
        if preferred is not None:
            _add(self._preferred, preferred, by)

    def _apply_secret(self, name: str, value: Mapping[str, object] | None) -> None:
        if name == "invented" and value is not None:
            self._secret = b64decode(str(value["value"]))

    def users(self) -> dict[str, dict[str, Credential]]:
        """User → mechanism → credential."""
        found: dict[str, dict[str, Credential]] = {}
        for (mechanism, user), kept in sorted(self._kept.items()):
            found.setdefault(user, {})[mechanism] = kept
        return found

    # ---- changes: durable when they return -------------------------------------------------------

    async def put(self, mechanism: Mechanism, user: str, kept: Credential) -> None:
        value = {
            "salt": b64encode(kept.salt).decode(),
            "stored_key": b64encode(kept.stored_key).decode(),
            "server_key": b64encode(kept.server_key).decode(),
            "iterations": kept.iterations,
        }
        await self._catalogue.put(KIND, f"{mechanism.name}/{user}", value)

    async def remove(self, mechanism: Mechanism, user: str) -> None:
        await self._catalogue.put(KIND, f"{mechanism.name}/{user}", None)

    # ---- what a login asks -----------------------------------------------------------------------

    def find(self, mechanism: Mechanism, user: str) -> Credential:
        """The user's credential; an invented one, which no password fits, where there is none."""
        invented = self._invent(mechanism, user)  # in both cases, so that both take as long
        return self._kept.get((mechanism.name, user), invented)

    def _invent(self, mechanism: Mechanism, user: str) -> Credential:
        seed = hmac.digest(self._secret, f"{mechanism.name}/{user}".encode(), "sha512")
        key = os.urandom(mechanism.size)
        return Credential(seed[:24], key, key, self._usual_iterations[mechanism.name])

    def _choose(self, *mechanisms: str) -> None:
        """What most users have is what an invented one has."""
        for name in mechanisms:
            usual = self._iterations[name].most_common(1)
            self._usual_iterations[name] = usual[0][0] if usual else scram.ITERATIONS_MIN
        chosen = self._preferred.most_common(1)
        self._usual_mechanism = scram.MECHANISMS[chosen[0][0]] if chosen else scram.SHA_256

    async def knows(
        self, user: str, password: str, own: Mapping[Key, Credential], address: str
    ) -> bool:
        """Whether this is the user's password; `own` are the users of the listener's settings.

        One thread does the slow part: guessing passwords keeps one core busy, not the broker. Addresses
        take turns at it. Raises Busy.
        """
        mechanism, kept = self._any(user, own)
        loop = asyncio.get_running_loop()
        async with self._turns.turn(address):
            return await loop.run_in_executor(self._thread, scram.knows, mechanism, kept, password)

    def _any(self, user: str, own: Mapping[Key, Credential]) -> tuple[Mechanism, Credential]:
        invented = self._invent(self._usual_mechanism, user)
        for known in (own, self._kept):
            for mechanism in _ORDER:
                kept = known.get((mechanism.name, user))
                if kept is not None:
                    return mechanism, kept
        return self._usual_mechanism, invented


_ORDER = (scram.SHA_512, scram.SHA_256)
"""In which a PLAIN password is checked against a user's credentials: the first that there is."""


def _add(counts: Counter[T], what: T, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]


_USER = re.compile(r'\buser_(?P<name>[^\s=]+)\s*=\s*"(?P<password>(?:\\.|[^"\\])*)"')


def jaas_users(line: str) -> dict[Key, Credential]:
    """The users of a PLAIN line (`… PlainLoginModule required user_ann="…";`), passwords as keys."""
    found = {}
    for match in _USER.finditer(line):
        password = re.sub(r"\\(.)", r"\1", match["password"])
        salt = os.urandom(24)
        iterations = scram.ITERATIONS_MIN
        key = scram.salted(scram.SHA_256, password, salt, iterations)
        name = (scram.SHA_256.name, match["name"])
        found[name] = scram.credential(scram.SHA_256, key, salt, iterations)
    return found
