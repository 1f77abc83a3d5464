"""Who a client is: `User:NAME`. Given by SASL, by a certificate, or by neither (`User:ANONYMOUS`).

The connection asks `from_certificate` once, after the TLS handshake. The name of a certificate is its
subject as Java writes it (RFC 2253: last part first, `CN=ann,OU=dev,O=shop`), put through
`ssl.principal.mapping.rules`:

    DEFAULT                         the whole subject
    RULE:pattern/replacement/       $1 … are the pattern's groups; must match the whole subject
    RULE:pattern/replacement/L      the same in lower case (U: upper case)

The first rule that matches counts; where none does, the client is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

ANONYMOUS = "User:ANONYMOUS"

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes that RFC 2253 has a short name for; Java writes the others by number."""
_EMAIL = "1.2.840.113549.1.9.1"

Subject = Sequence[Sequence[tuple[str, str]]]
"""As Python's ssl module gives it: parts in the order of the certificate."""


class NoPrincipal(Exception):
    """No rule makes a name of this certificate."""


def subject_name(subject: Subject) -> str:
    """A certificate's subject in one line, as Java's X500Principal writes it."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in part) for part in reversed(subject)
    )


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress":  # an IA5String, which Java shows in hex
        data = value.encode()
        return f"{_EMAIL}=#16{len(data):02x}{data.hex()}"
    return f"{_SHORT.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if text[:1] in ("#", " "):
        text = "\\" + text
    if text.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text


class BadRule(ValueError):
    """A rule of `ssl.principal.mapping.rules` that cannot be read."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        return None if match is None else self.case(match.expand(self.replacement))


class PrincipalRules:
    """`ssl.principal.mapping.rules`, read once."""

    def __init__(self, text: str) -> None:
        """Raises `BadRule`."""
        self._rules = _parse(text.strip() or "DEFAULT")

    def from_certificate(self, subject: Subject) -> str:
        """The principal of a client certificate. Raises `NoPrincipal`."""
        name = subject_name(subject)
        for rule in self._rules:
            found = rule.apply(name)
            if found is not None:
                return f"User:{found}"
        raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {name}")


_RULE = re.compile(r"DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


def _parse(text: str) -> list[_Rule]:
    rules = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise BadRule(f"ssl.principal.mapping.rules cannot be read from {text[position:]!r} on")
        rules.append(_rule(match))
        position = match.end()
        rest = text[position:].lstrip()
        if rest and not rest.startswith(","):
            raise BadRule(f"ssl.principal.mapping.rules needs a comma before {rest!r}")
        position = len(text) - len(rest[1:].lstrip())
    return rules


def _rule(match: re.Match[str]) -> _Rule:
    if match.group() == "DEFAULT":
        return _Rule(None)
    pattern, replacement, case = match.groups()
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
        template = re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\/", "/"))
        if any(int(number) > compiled.groups for number in re.findall(r"\$(\d)", replacement)):
            raise BadRule(f"the replacement {replacement!r} names a group that its pattern lacks")
    except re.error as error:
        raise BadRule(f"the pattern {pattern!r} cannot be read: {error}") from None
    return _Rule(compiled, template, {"L": str.lower, "U": str.upper}.get(case, str))
