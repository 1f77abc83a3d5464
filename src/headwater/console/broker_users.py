"""Signing in as a user of the broker: whether it lets this name in with this password.

Called by `guard` with what stood in the form. The console asks the log at its own address, in its own way
(TLS, certificates), but with the visitor's name; the password is kept nowhere. A few are asked at a time,
some more wait for their turn, and who comes then is sent away.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping

from headwater.client.cluster import Cluster
from headwater.client.errors import LoginRefused
from headwater.client.options import cluster_settings
from headwater.console.sessions import Visitor
from headwater.errors import HeadwaterError
from headwater.project.roles import Grants

TIMEOUT_S = 5.0
AT_ONCE = 4
WAITING_MAX = 64
"""With those that are being asked."""
_SCRAM = ("SCRAM-SHA-512", "SCRAM-SHA-256")


class NoLogin(HeadwaterError):
    """The console's way to the log asks for no names, so it can check none."""


class TooManyAtOnce(HeadwaterError):
    """More want to sign in than the log is asked about."""


class BrokerUsers:
    """The broker's users as visitors, with the roles that `grants` gives them."""

    def __init__(self, bootstrap: str, client: Mapping[str, str], grants: Grants) -> None:
        protocol = client.get("security.protocol", "").upper()
        if not protocol.startswith("SASL_"):
            raise NoLogin(
                "[console.users] needs a log that asks for names and passwords, and the console's way "
                "to it does not",
                hint="give the broker a listener with SASL, and the console a file with "
                "security.protocol=SASL_SSL in HEADWATER_CLIENT_CONFIG; docs/console.md",
            )
        self._settings = {**client, "bootstrap.servers": bootstrap, "client.id": "headwater-login"}
        self._grants = grants
        own = (client.get("sasl.mechanism") or client.get("sasl.mechanisms") or "").upper()
        self._mechanisms = tuple(dict.fromkeys((*((own,) if own in _SCRAM else ()), *_SCRAM)))
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def visitor(self, name: str, password: str) -> Visitor | None:
        """None: the broker refuses them, or they may not look here. Raises when it cannot be asked."""
        if not name or not password:
            return None
        if self._waiting >= WAITING_MAX:
            raise TooManyAtOnce(
                f"{self._waiting} others are signing in just now", hint="try again in a moment"
            )
        role = self._grants.role_of(name)
        # Of one without a role the broker is asked about a wrong password: it must not take another time
        # where his own is right, as people use one for several places.
        asked = secrets.token_urlsafe() if role is None else password
        self._waiting += 1
        try:
            async with self._turns:
                is_right = await asyncio.to_thread(self.lets_in, name, asked)
        finally:
            self._waiting -= 1
        return Visitor(f"User:{name}", role) if is_right and role is not None else None

    def lets_in(self, name: str, password: str) -> bool:
        """Blocks. A user may have a password for one mechanism only."""
        return any(self._try(name, password, each) for each in self._mechanisms)

    def _try(self, name: str, password: str, mechanism: str) -> bool:
        own = {k: v for k, v in self._settings.items() if not k.startswith("sasl.")}
        login = {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        cluster = Cluster(cluster_settings({**own, **login}, TIMEOUT_S))
        try:
            cluster.metadata([])
        except LoginRefused:
            return False
        finally:
            cluster.close()
        return True
