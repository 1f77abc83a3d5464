"""Tokens that must open nothing, each with what the log says of it."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable

from joserfc.jwk import RSAKey

from headwater.oidc.validator import TOKEN_BYTES_MAX
from headwater.testing.issuer import Issuer


def _unsigned(idp: Issuer, spelt: str) -> str:
    parts = ({"alg": spelt, "kid": idp.keys[0].kid}, idp.claims())
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b".".join([*coded, b""]).decode()


def _signed_by_the_public_key(idp: Issuer) -> str:
    """By hand: no library signs with a public key any more."""
    begun, _, _ = _unsigned(idp, "HS256").rpartition(".")
    secret = idp.keys[0].as_pem(private=False)
    proof = base64.urlsafe_b64encode(hmac.digest(secret, begun.encode(), "sha256"))
    return f"{begun}.{proof.rstrip(b'=').decode()}"


def _altered(idp: Issuer) -> str:
    head, body, signature = idp.token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    other = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "root"}).encode())
    return f"{head}.{other.rstrip(b'=').decode()}.{signature}"


BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda idp: idp.token(exp=time.time() - 60), "expired 6"),
    "without an end": (lambda idp: idp.token(exp=None), "no exp"),
    "with an end that is no time": (lambda idp: idp.token(exp="later"), "no time"),
    "with an end beyond all": (lambda idp: idp.token(exp=float("inf")), "no time"),
    "with an end of 400 digits": (lambda idp: idp.token(exp=10**400), "no time"),
    "with a beginning of 400 digits": (lambda idp: idp.token(nbf=10**400), "no time"),
    "not yet valid": (lambda idp: idp.token(nbf=time.time() + 100), "is good in"),
    "of another issuer": (lambda idp: idp.token(iss="https://other.example"), "of issuer"),
    "for another": (lambda idp: idp.token(aud="billing"), "meant for 'billing'"),
    "for others": (lambda idp: idp.token(aud=["billing", "mail"]), "meant for"),
    "for nobody": (lambda idp: idp.token(aud=None), "meant for None"),
    "of nobody": (lambda idp: idp.token(sub=""), "says nobody"),
    "of a number": (lambda idp: idp.token(sub=7), "says nobody"),
    "of a name with a line in it": (lambda idp: idp.token(sub="ann\nroot"), "no name"),
    "signed by a stranger under a known kid": (
        lambda idp: idp.signed(idp.claims(), RSAKey.generate_key(2048, {"kid": idp.keys[0].kid})),
        "not rightly signed",
    ),
    "altered": (_altered, "not rightly signed"),
    "unsigned": (lambda idp: _unsigned(idp, "none"), "'none', which is not taken"),
    "unsigned, in capitals": (lambda idp: _unsigned(idp, "NONE"), "not taken"),
    "HS256 by the public key": (_signed_by_the_public_key, "'HS256', which is not taken"),
    "RS256 as PS256": (lambda idp: _unsigned(idp, "PS256") + "AAAA", "not rightly signed"),
    "oversized": (lambda idp: idp.token(more="x" * TOKEN_BYTES_MAX), "longer than"),
    "two parts": (lambda idp: idp.token().rpartition(".")[0], "no JWT"),
    "empty": (lambda idp: "", "no JWT"),
    "noise": (lambda idp: "ä.ö.ü", "no JWT"),
    "an array": (lambda idp: "W10.W10.W10", "no JWT"),
}
