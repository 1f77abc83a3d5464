"""Roles: what somebody who has signed in may do, by the name and the groups that a sign-in delivers; pure.

Called by `console` and by `file`. A way to sign in (a token, the broker's users, an issuer of tokens) ends
with a name and, where it knows any, groups; `Grants.role_of` makes a role of them, or nothing, and nothing
else does.

    reader           looks at everything but who else may come in
    operator         and acts on data: publishes, replays, resets groups, verifies and rebuilds views
    administrator    and on what the log is: topics, users, permissions, quotas
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_network
from urllib.parse import urlsplit

from headwater.errors import nearest
from headwater.oidc import settings
from headwater.project.ports import is_loopback
from headwater.secrets import is_reference
from headwater.value_forms import is_text

EVERYBODY = "*"
MINUTES_MAX = 60 * 24 * 30


class Role(IntEnum):
    """Each may do what those before it may."""

    READER = 1
    OPERATOR = 2
    ADMINISTRATOR = 3

    @property
    def word(self) -> str:
        """As it is written in headwater.toml."""
        return self.name.lower()


ROLES: Mapping[str, Role] = {each.word: each for each in Role}


@dataclass(frozen=True)
class Grants:
    """Who has which role, by name and by group; `*` stands for everybody who can sign in."""

    users: Mapping[str, Role] = field(default_factory=dict)
    groups: Mapping[str, Role] = field(default_factory=dict)

    def role_of(self, name: str, groups: Iterable[str] = ()) -> Role | None:
        """The highest that name or groups give; None: this one may not come in."""
        if name == EVERYBODY:
            return None
        found = [self.users.get(name), self.users.get(EVERYBODY), *map(self.groups.get, groups)]
        return max((each for each in found if each is not None), default=None)


def grants_of(users: Mapping[str, str]) -> Grants:
    """From a section of names and words that `complaint` has nothing against."""
    return Grants({name: ROLES[word] for name, word in users.items()})


def complaint(value: object) -> str | None:
    """What is wrong with `users`, in words that follow `users = …`; None: nothing."""
    if not isinstance(value, Mapping) or not value:
        return 'is no section with lines as in ann = "operator"'
    for name, word in value.items():
        if not isinstance(word, str) or word not in ROLES:
            return f"gives {name!r} no role: it is one of {', '.join(ROLES)}"
    return None


def tokens_complaint(value: object) -> str | None:
    """What is wrong with `tokens`: a role for each, and no secret in the file."""
    if not isinstance(value, Mapping) or not value:
        return 'is no section with lines as in reader = "${NAME}"'
    for word, secret in value.items():
        if word not in ROLES:
            return f"has {word!r}, which is no role: it is one of {', '.join(ROLES)}"
        if not isinstance(secret, str) or not is_reference(secret):
            return (
                f'has for {word} no "${{NAME}}" and no "file:/…": '
                "secrets come from the environment or files"
            )
    return None


def minutes_complaint(value: object) -> str | None:
    """What is wrong with `session_minutes`."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MINUTES_MAX
    return None if good else f"is no number from 1 to {MINUTES_MAX}"


def proxies_complaint(value: object) -> str | None:
    """What is wrong with `proxies`."""
    try:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            for each in value:
                ip_network(each)
            return None
    except ValueError:
        pass
    return 'is no list of addresses or networks, as in ["10.0.0.5", "192.168.7.0/24"]'


def oidc_complaint(value: object) -> str | None:
    """What is wrong with `[console.oidc]`."""
    if not isinstance(value, Mapping):
        return "is a section with lines of its own"
    said = settings.complaints(value, ("issuer",))
    known = (*settings.SETTINGS, *_OIDC_TEXTS, "client_secret", "users", "groups")
    said += [
        f"has no setting {each!r}{nearest(each, known)}" for each in value if each not in known
    ]
    if "audience" in value:
        said.append("has audience, which is the client_id here")
    for name in ("client_id", "address", *(each for each in ("scope",) if each in value)):
        if not is_text(value.get(name)):
            said.append(f'lacks {name} = "…"')
    address = value.get("address")
    if isinstance(address, str) and not _is_address(address):
        said.append(f"has the address {address!r}, which is no https://HOST as browsers see it")
    secret = value.get("client_secret")
    if secret is not None and not (isinstance(secret, str) and is_reference(secret)):
        said.append('has a client_secret that is no "${NAME}" and no "file:/…"')
    if "users" not in value and "groups" not in value:
        said.append('lets nobody in: write [console.oidc.groups] with lines as in ops = "operator"')
    for name in ("users", "groups"):
        if name in value and (wrong := complaint(value[name])) is not None:
            said.append(f"{name} {wrong}")
    return said[0] if said else None


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        return False
    is_bare = parts.path in ("", "/") and not parts.query and not parts.fragment
    return bool(parts.hostname) and is_bare and (parts.scheme == "https" or is_local)


_OIDC_TEXTS = ("client_id", "address", "scope")
CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "tokens": tokens_complaint,
    "users": complaint,
    "oidc": oidc_complaint,
    "session_minutes": minutes_complaint,
    "proxies": proxies_complaint,
}
"""Of the settings of `[console]` that speak of roles."""
