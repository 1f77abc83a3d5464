"""How a connection becomes a trusted one: the TLS context and the SASL tokens, from client settings.

`connection` calls both. Settings are those of `options.client_settings`, so already in one spelling.
Key stores must be PEM (files, or the text itself): Java's own formats have no reader in Python.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

from headwater.client.errors import BadOption, LoginRefused
from headwater.oidc.errors import BadIssuer, IssuerUnreachable, TokenRefused
from headwater.oidc.grants import Grant, tokens

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_NAMES = ("", "none")
_RENEW_AT, _RENEW_S_MIN = 0.8, 1.0

Exchange = Callable[[bytes], bytes]
"""Sends one SASL token and returns the server's."""


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """None where the connection is not encrypted."""
    if not settings.get("security.protocol", "PLAINTEXT").upper().endswith("SSL"):
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    try:
        _trust(context, settings)
        _identify(context, settings)
    except (OSError, ssl.SSLError) as error:
        raise BadOption(
            f"The TLS settings cannot be used: {error}.",
            hint="Certificates and keys must be readable PEM files (ssl.ca.location, "
            "ssl.certificate.location, ssl.key.location).",
        ) from None
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() in _NO_NAMES:
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    _refuse_java_stores(settings)
    location = settings.get("ssl.ca.location") or settings.get("ssl.truststore.location")
    text = settings.get("ssl.ca.pem") or settings.get("ssl.truststore.certificates")
    if location or text:
        context.load_verify_locations(cafile=location or None, cadata=text or None)


def _refuse_java_stores(settings: Mapping[str, str]) -> None:
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = settings.get(f"{store}.type", "").upper()
        location = settings.get(f"{store}.location", "")
        if kind in ("JKS", "PKCS12") or location.lower().endswith((".jks", ".p12", ".pfx")):
            raise BadOption(
                f"kafka.{store}.location is a {kind or 'Java'} store, which only Java reads.",
                hint="Turn it into PEM (openssl pkcs12 -nodes) and set type=PEM.",
            )


def _identify(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """The client's own certificate, where it has one."""
    bundle = settings.get("ssl.keystore.location")
    certificate = settings.get("ssl.certificate.location") or bundle
    key = settings.get("ssl.key.location") or bundle
    password = settings.get("ssl.key.password") or settings.get("ssl.keystore.password")
    chain = settings.get("ssl.certificate.pem") or settings.get("ssl.keystore.certificate.chain")
    secret = settings.get("ssl.key.pem") or settings.get("ssl.keystore.key")
    if chain and secret:
        # The ssl module loads a key from a file only: one that nobody else can read, for a moment.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "identity.pem"
            path.touch(mode=0o600)
            path.write_text(f"{secret}\n{chain}\n")
            context.load_cert_chain(path, password=password)
    elif certificate:
        context.load_cert_chain(certificate, key, password=password)


def log_in(settings: Mapping[str, str], exchange: Exchange) -> None:
    """Go through the mechanism's steps; LoginRefused if the server turns out not to know the user."""
    mechanism = settings["sasl.mechanism"].upper()
    if mechanism == "OAUTHBEARER":
        _bearer(settings, exchange)
        return
    user, password = settings["sasl.username"], settings["sasl.password"]
    if mechanism == "PLAIN":
        exchange(f"\0{user}\0{password}".encode())
    else:
        _scram(mechanism, user, password, exchange)


def has_token(settings: Mapping[str, str]) -> bool:
    """Whether there is what a login needs; not while the issuer is away and the last token is over."""
    if settings["sasl.mechanism"].upper() != "OAUTHBEARER":
        return True
    try:
        _token(settings)
    except IssuerUnreachable:
        return False
    return True


def renewal(lifetime_s: float) -> float:
    """How long after a login the next one is due: in time, but no broker takes two within a second."""
    return max(lifetime_s * _RENEW_AT, _RENEW_S_MIN)


def user(settings: Mapping[str, str]) -> str:
    """As whom one logs in."""
    return settings.get("sasl.username") or settings.get("sasl.oauthbearer.client.id", "")


def _token(settings: Mapping[str, str]) -> str:
    """Raises IssuerUnreachable where there is none to be had now."""
    grant = Grant(
        settings["sasl.oauthbearer.token.endpoint.url"],
        settings["sasl.oauthbearer.client.id"],
        settings["sasl.oauthbearer.client.secret"],
        settings.get("sasl.oauthbearer.scope", ""),
    )
    try:
        return tokens(grant).now()
    except (BadIssuer, TokenRefused) as error:
        raise LoginRefused(error.sentence, hint=error.hint) from None


def _bearer(settings: Mapping[str, str], exchange: Exchange) -> None:
    """RFC 7628, the client's side. Raises IssuerUnreachable."""
    status = exchange(b"n,,\1auth=Bearer %b\1\1" % _token(settings).encode())
    if status:
        exchange(b"\1")
        raise LoginRefused(f"The broker refused the token: {status[:200]!r}.")


def _scram(mechanism: str, user: str, password: str, exchange: Exchange) -> None:
    """RFC 5802, the client's side."""
    name = _HASHES[mechanism]
    nonce = b64encode(os.urandom(24))
    spelt = user.replace("=", "=3D").replace(",", "=2C").encode()
    first = b"n=" + spelt + b",r=" + nonce
    challenge = exchange(b"n,," + first)
    parts = dict(part.split(b"=", 1) for part in challenge.split(b","))
    if not parts.get(b"r", b"").startswith(nonce):
        raise LoginRefused("The broker's SCRAM answer is not to our question.")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(parts[b"s"]), int(parts[b"i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    bare = b"c=biws,r=" + parts[b"r"]
    messages = first + b"," + challenge + b"," + bare
    signature = hmac.digest(hashlib.new(name, client_key).digest(), messages, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = exchange(bare + b",p=" + b64encode(proof))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), messages, name)
    if not hmac.compare_digest(final, b"v=" + b64encode(expected)):
        raise LoginRefused("The broker does not know the user's keys: it is not who it says it is.")
