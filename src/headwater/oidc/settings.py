"""A section of headwater.toml that names an issuer, read and checked; pure. Called by `edges` and `console`.

issuer            as it calls itself                 groups_claim      groups; or realm_access.roles
audience          a text or a list of them           principal_claim   sub
jwks              where its keys are, if discovery shall not say it
skew_seconds      30: by how much clocks may differ
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.oidc import web
from headwater.oidc.claims import SKEW_S, Rules
from headwater.oidc.errors import BadIssuer
from headwater.value_forms import is_text

_TEXTS = ("issuer", "jwks", "groups_claim", "principal_claim")
SETTINGS = (*_TEXTS, "audience", "skew_seconds")
SKEW_S_MAX = 600
Section = Mapping[str, object]


def rules_of(section: Section) -> Rules:
    """Of a section in which `complaints` found nothing."""
    skew = section.get("skew_seconds", SKEW_S)
    assert isinstance(skew, int | float)
    return Rules(
        issuer=text(section, "issuer"),
        audiences=tuple(map(str, _listed(section.get("audience")))),
        principal_claim=text(section, "principal_claim", "sub"),
        groups_claim=text(section, "groups_claim", "groups"),
        skew_s=skew,
    )


def text(section: Section, name: str, default: str = "") -> str:
    return str(section.get(name, default))


def complaints(section: Section, needed: tuple[str, ...] = ("issuer", "audience")) -> list[str]:
    """A sentence for each mistake."""
    said = [
        f"{name} = {section[name]!r} is no text in quotes"
        for name in _TEXTS
        if name in section and not is_text(section[name])
    ]
    said += [
        f"lacks `{name} = …`: any other token would do" for name in needed if name not in section
    ]
    audience = section.get("audience", "-")
    if not all(map(is_text, _listed(audience))):
        said.append(f"audience = {audience!r} is neither a text nor a list of texts")
    skew = section.get("skew_seconds", SKEW_S)
    is_number = isinstance(skew, int | float) and not isinstance(skew, bool)
    if not (is_number and isinstance(skew, int | float) and 0 <= skew <= SKEW_S_MAX):
        said.append(f"skew_seconds = {skew!r} is no number of seconds from 0 to {SKEW_S_MAX}")
    return said + _addresses(section)


def _addresses(section: Section) -> list[str]:
    said = []
    for name, files in (("issuer", False), ("jwks", True)):
        found = section.get(name)
        if isinstance(found, str) and found:
            try:
                web.check(found, name, files=files)
            except BadIssuer as error:
                said.append(error.with_hint)
    return said


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) and value else [value]
