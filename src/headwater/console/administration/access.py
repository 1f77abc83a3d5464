"""Who can log in, what they may do, and how much of it: users, permissions, quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.client import acls, quotas, users
from headwater.client.acls import Acl
from headwater.client.errors import BadRequest, NotThere, told
from headwater.console.actions import Action
from headwater.console.administration.topics import must_match
from headwater.console.context import Visit

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
ITERATIONS = 4096


def put_user(visit: Visit, name: str, password: str, mechanisms: Sequence[str]) -> None:
    """A new user, or another password."""
    visit.must(Action.CHANGE_USERS)
    if not name:
        raise BadRequest("the user has no name yet", hint="type one")
    if not password:
        raise BadRequest("an empty password opens nothing", hint="type one")
    if not mechanisms or not set(mechanisms) <= set(MECHANISMS):
        raise BadRequest("the user needs a mechanism", hint=" or ".join(MECHANISMS))
    with told(f"setting the password of {name}", visit.log.bootstrap):
        users.put(visit.log.admin, name, password, mechanisms, ITERATIONS)


def remove_user(visit: Visit, name: str, typed: str) -> None:
    """`typed`: the name once more, by hand."""
    visit.must(Action.CHANGE_USERS)
    must_match(name, typed)
    with told(f"removing user {name}", visit.log.bootstrap):
        mechanisms = users.listed(visit.log.admin).get(name)
        if not mechanisms:
            raise NotThere(f"there is no user {name!r}", hint="the page shows those that exist")
        users.remove(visit.log.admin, name, mechanisms)


def add_permission(visit: Visit, acl: Acl) -> None:
    visit.must(Action.CHANGE_PERMISSIONS)
    with told(f"adding that {acls.sentence(acl)}", visit.log.bootstrap):
        acls.add(visit.log.admin, [checked(acl)])


def remove_permission(visit: Visit, acl: Acl) -> None:
    visit.must(Action.CHANGE_PERMISSIONS)
    with told(f"removing that {acls.sentence(acl)}", visit.log.bootstrap):
        if not acls.remove_one(visit.log.admin, acl):
            raise NotThere("somebody has removed it already", hint="look at the list again")


def set_quota(
    visit: Visit,
    owner: Mapping[str, str | None],
    limits: Mapping[str, float | None],
    *,
    dry_run: bool,
) -> None:
    """None takes a limit away."""
    visit.must(Action.CHANGE_QUOTAS)
    quotas.alter(visit.log, owner, limits, dry_run=dry_run)


def checked(acl: Acl) -> Acl:
    """As the broker takes it; BadRequest for what is none. Pure."""
    kind, colon, name = acl.principal.partition(":")
    if not colon or not kind or not name:
        raise BadRequest(f"{acl.principal!r} is no principal", hint="write User:ann, or User:*")
    if acl.kind not in acls.KINDS or acl.operation not in acls.OPERATIONS:
        raise BadRequest(f"{acl.operation} {acl.kind} is no permission")
    if acl.kind == "cluster":
        return acl._replace(name=acls.CLUSTER_NAME, is_prefix=False)
    if not acl.name:
        raise BadRequest(f"say which {acl.kind}", hint="a name, or * for all")
    if not acl.host:
        raise BadRequest("say from which address", hint="* for all")
    return acl
