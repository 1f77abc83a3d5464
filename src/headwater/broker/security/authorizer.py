"""The authorizer: may this principal do that here? A view of the ACLs in the catalogue.

Made only where `authorizer.class.name` asks for it; `rules/` ask it for each request then. Denied is
what nobody allowed: a resource without any ACL is open to super users only, unless
`allow.everyone.if.no.acl.found`. A topic that is not for all is open to those whose ACL names it
(`internal_topics.needs_a_name`). In the catalogue:

    acl/[2,"orders",3,"User:ann","*",3,3]       {}         the numbers as on the wire

Decisions are remembered until an ACL changes; there are at most `REMEMBERED_MAX` of them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from heapq import merge

from headwater.broker import internal_topics
from headwater.broker.bounds import logged
from headwater.broker.catalogue import Catalogue
from headwater.broker.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    AclTable,
    Denials,
    Filter,
    Operation,
    Permission,
    ResourceType,
    decide,
)
from headwater.broker.settings import Settings
from headwater.broker.slices import pieces
from headwater.broker.turns import give_way, in_turns

logger = logging.getLogger("headwater.security")

KIND = "acl"
REMEMBERED_MAX = 20_000
NAME_MAX = 300
SOMEWHERE = "\0somewhere"
"""Remembered as the name of any resource."""
SORTED_AT_ONCE = 2_000


class Authorizer:
    """Decides, and keeps the ACLs."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self.acls = AclTable()
        self._catalogue = catalogue
        self._everyone: bool = settings.get("allow.everyone.if.no.acl.found")
        self._super = super_users(settings.get("super.users"))
        self._remembered: dict[tuple[str, str, int, int, str], bool] = {}
        catalogue.follow(KIND, self._apply)

    # ---- the ACLs: durable when they return ------------------------------------------------------

    async def add(self, acl: Acl) -> None:
        if acl not in self.acls:
            await self._catalogue.put(KIND, _name(acl), {})

    async def remove(self, acl: Acl) -> None:
        await self._catalogue.put(KIND, _name(acl), None)

    async def matching(self, wanted: Filter, monotonic: Callable[[], float]) -> list[Acl]:
        """In order. There may be very many: others are served in between."""
        found = [acl async for acl in in_turns(list(self.acls), monotonic) if wanted.matches(acl)]
        parts = []
        async for some in in_turns(pieces(found, SORTED_AT_ONCE), monotonic):
            parts.append(sorted(some))
            await give_way()
        return [acl async for acl in in_turns(merge(*parts), monotonic)]

    def _apply(self, name: str, value: Mapping[str, object] | None) -> None:
        acl = Acl(*json.loads(name))
        if value is None:
            self.acls.remove(acl)
        else:
            self.acls.add(acl)
        self._remembered = {}  # another one: what is still being decided is of the past

    # ---- decisions -------------------------------------------------------------------------------

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the principal may do this from there."""
        key = (principal, host, operation, kind, name)
        known = self._remembered.get(key)
        if known is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            known = self._decide(*key)
            if len(name) <= NAME_MAX:  # a client chooses what it asks about
                self._remembered[key] = known
        return known

    def _decide(self, principal: str, host: str, operation: int, kind: int, name: str) -> bool:
        if principal in self._super:
            return True
        about = self.acls.about(kind, name, principal)
        if kind == ResourceType.TOPIC and internal_topics.needs_a_name(name):
            naming = (acl for acl in about if _names_it(acl))
            return decide(naming, principal, host, Operation(operation)) is True
        said = decide(about, principal, host, Operation(operation))
        if said is None and self._everyone:
            return not self.acls.speaks_of(kind, name)
        return said is True

    async def allows_somewhere(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceType,
        monotonic: Callable[[], float],
    ) -> bool:
        """Whether there is any resource of this type with which the principal may do this. All that speaks
        to it is looked at: others are served in between."""
        if principal in self._super:
            return True
        if self._everyone and self.allows(principal, host, operation, kind, "\0nobody's"):
            return True
        remembered, key = self._remembered, (principal, host, operation, kind, SOMEWHERE)
        if key not in remembered:
            if len(remembered) >= REMEMBERED_MAX:
                remembered.clear()
            remembered[key] = await self._look_somewhere(
                principal, host, operation, kind, monotonic
            )
        return remembered[key]

    async def _look_somewhere(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceType,
        monotonic: Callable[[], float],
    ) -> bool:
        allowing, denials = [], Denials()
        async for acl in in_turns(self.acls.speaking(kind, principal), monotonic):
            if acl.speaks_to(principal, host) and acl.operation in (operation, Operation.ALL):
                if acl.permission == Permission.DENY:
                    denials.add(acl)
                else:
                    allowing.append(acl)
        async for acl in in_turns(allowing, monotonic):
            if not denials.cover(acl):
                return True
        return False

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """Everything the principal may do with a resource, as Kafka's bit field."""
        return sum(
            1 << operation
            for operation in OPERATIONS[kind]
            if self.allows(principal, host, operation, kind, name)
        )


_NAMED = (internal_topics.PREFIX, internal_topics.SCHEMAS)


def _names_it(acl: Acl) -> bool:
    """Whether it speaks of a topic that must be named: what is allowed for every topic, or by a prefix that
    many others have, does not."""
    return acl.permission == Permission.DENY or acl.resource_name.startswith(_NAMED)


def super_users(text: str) -> frozenset[str]:
    """`User:ann;User:bob`."""
    return frozenset(name.strip() for name in text.split(";") if name.strip())


def _name(acl: Acl) -> str:
    return json.dumps([int(x) if isinstance(x, int) else x for x in acl], separators=(",", ":"))


def denied(principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> None:
    """Say in the log who was refused what."""
    where = logged(name) if kind is not ResourceType.CLUSTER else CLUSTER_NAME
    who = logged(principal)
    logger.info("denied: %s from %s, %s on %s %s", who, host, operation.name, kind.name, where)


def denied_more(principal: str, host: str) -> None:
    """Say so where a request was refused more than the log has lines for."""
    logger.info("denied: %s from %s, more in the same request", logged(principal), host)
