"""SASL OAUTHBEARER (RFC 7628, KIP-255): the client shows a token of an issuer. Pure; `login` calls it.

    n,[a=authzid],^Aauth=Bearer TOKEN^A[key=value^A]*^A        the client's one message; ^A is the byte 1

A refused token is answered with a status in JSON; the client says ^A to that, and is then refused for good.
"""

from __future__ import annotations

import re

from headwater.oidc.errors import TokenRefused

OAUTHBEARER = "OAUTHBEARER"
STATUS = '{"status":"invalid_token"}'
"""All that a client hears, whatever was wrong."""
_MESSAGE = re.compile(
    rb"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)+)\x01"
)
_BEARER = re.compile(rb"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/=-]+) *")


def parse(message: bytes) -> tuple[str, str]:
    """The token, and whom the client wants to act as (empty: whomever it names). Raises TokenRefused."""
    match = _MESSAGE.fullmatch(message)
    if match is None:
        raise TokenRefused("the message is not OAUTHBEARER's")
    pairs = [each.split(b"=", 1) for each in match["pairs"].split(b"\x01") if each]
    said = [value for name, value in pairs if name.lower() == b"auth"]
    bearer = _BEARER.fullmatch(said[0]) if len(said) == 1 else None
    if bearer is None:
        raise TokenRefused("the message has not one bearer's token")
    try:
        authzid = (match["authzid"] or b"").decode().replace("=2C", ",").replace("=3D", "=")
    except UnicodeDecodeError:
        raise TokenRefused("the message is not UTF-8") from None
    return bearer["token"].decode(), authzid
