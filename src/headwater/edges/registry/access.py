"""Who may do what with which subjects: tokens of [schemas.tokens.NAME]; pure.

    [schemas.tokens.shop]
    secret = "${SHOP_SCHEMAS}"           # or a list of two, while one is being replaced
    read = ["*"]                         # subjects; * is any characters
    write = ["shop.*"]                   # register
    admin = ["shop.*"]                   # delete, compatibility, mode; "*" alone: also those of all subjects

Shown as `Authorization: Bearer SECRET` or, as Confluent's clients do, as a user with a password
(`NAME:SECRET`). A scope without a context (`shop.*`) reaches the default context only; `:.team:*` reaches
that of a team.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.edges.hooks.config import secret_complaints, secrets_of, unknown_settings
from headwater.edges.tokens import SECRET_CHARACTERS_MIN
from headwater.schemas import subjects
from headwater.secrets import Secrets

READ, WRITE, ADMIN = "read", "write", "admin"
_WAYS = (READ, WRITE, ADMIN)
_ALL = "*"


@dataclass(frozen=True)
class Token:
    name: str
    scopes: Mapping[str, tuple[str, ...]]

    def may(self, way: str, subject: str) -> bool:
        """`*`: all subjects, as the global config is."""
        return any(_covers(scope, subject) for scope in self.scopes.get(way, ()))


def _covers(scope: str, subject: str) -> bool:
    if scope == _ALL:
        return True
    if subject == _ALL:
        return False
    if subjects.context_of(scope) != subjects.context_of(subject):
        return False
    names = ".*".join(map(re.escape, subjects.bare_of(scope).split("*")))
    return re.fullmatch(names, subjects.bare_of(subject), re.DOTALL) is not None


class Tokens:
    """All of them. A secret is compared by its hash, so that the time it takes tells nothing."""

    def __init__(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        self._tokens: dict[str, tuple[Token, Secrets]] = {
            name: (Token(name, _scopes(section)), _secrets(section))
            for name, section in sections.items()
        }

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def find(self, header: str) -> Token | None:
        """Whose an `Authorization` is; None: nobody's."""
        kind, _, rest = header.partition(" ")
        if kind.lower() == "bearer":
            return self._by_secret(rest.strip())
        if kind.lower() == "basic":
            try:
                name, _, secret = (
                    base64.b64decode(rest.strip(), validate=True).decode().partition(":")
                )
            except (binascii.Error, ValueError):
                return None
            found = self._by_secret(secret)
            return found if found is not None and found.name == name else None
        return None

    def _by_secret(self, secret: str) -> Token | None:
        shown, found = _hash(secret), None
        for token, secrets in self._tokens.values():
            for each in secrets.now():
                if hmac.compare_digest(_hash(each), shown):
                    found = token
        return found if secret else None


def check(name: str, section: Mapping[str, object]) -> list[str]:
    """[schemas.tokens.NAME]: a sentence for each mistake."""
    said = unknown_settings(section, ("secret", *_WAYS))
    wrong = secret_complaints(section.get("secret"))
    if not wrong and any(len(e) < SECRET_CHARACTERS_MIN for e in _secrets(section)):
        wrong = [f"secret has less than {SECRET_CHARACTERS_MIN} characters: openssl rand -hex 16"]
    said += wrong
    if not any(section.get(way) for way in _WAYS):
        said.append('may do nothing: add read = ["*"] or write = ["SUBJECT"]')
    for way in _WAYS:
        scopes = section.get(way, [])
        if not isinstance(scopes, list) or not all(isinstance(e, str) and e for e in scopes):
            said.append(f'{way} = {scopes!r} is no list of subjects, as in ["shop.*"]')
    return said


def _secrets(section: Mapping[str, object]) -> Secrets:
    found = section["secret"]
    return secrets_of([str(e) for e in found] if isinstance(found, list) else str(found))


def _scopes(section: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    given = {way: section.get(way) for way in _WAYS}
    return {way: tuple(map(str, v)) for way, v in given.items() if isinstance(v, list)}


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
