"""SCRAM, the server's side (RFC 5802, RFC 7677): a client proves that it knows a password, unseen.

    client-first    n,,n=ann,r=CLIENTNONCE
    server-first    r=CLIENTNONCE+SERVERNONCE,s=SALT,i=ITERATIONS
    client-final    c=biws,r=…,p=PROOF
    server-final    v=SIGNATURE          (the server knows the keys, too)

Pure: no socket, no store. The caller looks the user's credential up between the first two lines; for
a name that nobody has it hands in an invented one, so that the exchange goes on and fails at the end,
like one with a wrong password. Kept of a password are salt, iterations and two keys; none of them is
enough to log in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from typing import NamedTuple

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
"""Kafka's bounds; the upper one keeps a login attempt cheap enough."""


class Mechanism(NamedTuple):
    """One of the two; `code` is the number in the credential APIs."""

    name: str
    hash: str
    code: int

    @property
    def size(self) -> int:
        return hashlib.new(self.hash).digest_size


SHA_256 = Mechanism("SCRAM-SHA-256", "sha256", 1)
SHA_512 = Mechanism("SCRAM-SHA-512", "sha512", 2)
MECHANISMS = {each.name: each for each in (SHA_256, SHA_512)}
BY_CODE = {each.code: each for each in (SHA_256, SHA_512)}


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<Credential, {self.iterations} iterations>"  # never its keys in a log


class ScramError(Exception):
    """The proof failed, or the message is none. Never says which, to the client."""


def salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The slow step; releases the interpreter's lock, so that it can run in a thread."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential(
    mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
) -> Credential:
    """The keys to keep, from a salted password."""
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    server_key = _hmac(mechanism, salted_password, b"Server Key")
    return Credential(salt, _hash(mechanism, client_key), server_key, iterations)


def knows(mechanism: Mechanism, kept: Credential, password: str) -> bool:
    """Whether this is the password (for PLAIN, where the client sends it). Slow, see `salted`."""
    found = credential(
        mechanism, salted(mechanism, password, kept.salt, kept.iterations), kept.salt, 0
    )
    return hmac.compare_digest(found.stored_key, kept.stored_key)


_SAFE = rb"[\x01-\x2b\x2d-\x7f\x80-\xff]"
_FIRST = re.compile(
    rb"(?P<gs2>[ny],(?:a=(?P<authzid>" + _SAFE + rb"+))?,)"
    rb"(?P<bare>(?P<reserved>m=" + _SAFE + rb"*,)?n=(?P<user>" + _SAFE + rb"+),"
    rb"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=" + _SAFE + rb"*)*))"
)
_FINAL = re.compile(
    rb"(?P<bare>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rb"(?:,[A-Za-z]+=" + _SAFE + rb"*)*?),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class Exchange:
    """One exchange. `begin` with the client's first message, `challenge`, then `finish`."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.user = ""
        self._gs2 = b""
        self._messages = b""
        self._nonce = b""
        self._kept: Credential | None = None

    def begin(self, message: bytes) -> None:
        """Read the client's first message; `user` is then who it says it is."""
        match = _FIRST.fullmatch(message)
        if match is None or match["reserved"]:
            raise ScramError("the client's first message cannot be read")
        self.user = _name(match["user"])
        if match["authzid"] is not None and _name(match["authzid"]) != self.user:
            raise ScramError("a user may only act as itself")
        if b"tokenauth=" in match["extensions"]:
            raise ScramError("delegation tokens are not supported")
        self._gs2, self._messages, self._nonce = match["gs2"], match["bare"], match["nonce"]

    def challenge(self, kept: Credential, nonce: bytes) -> bytes:
        """The server's first message; `nonce` must be fresh and printable."""
        self._kept = kept
        self._nonce += nonce
        salt = b64encode(kept.salt)
        message = b"r=%b,s=%b,i=%d" % (self._nonce, salt, kept.iterations)
        self._messages += b"," + message
        return message

    def finish(self, message: bytes) -> bytes:
        """Check the client's proof; the server's last message. Raises `ScramError`."""
        assert self._kept is not None, "finish comes after challenge"
        match = _FINAL.fullmatch(message)
        if match is None:
            raise ScramError("the client's last message cannot be read")
        if _decoded(match["channel"]) != self._gs2:
            raise ScramError("the channel binding differs from the first message's")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise ScramError("the nonce is not ours")
        messages = self._messages + b"," + match["bare"]
        if not self._proves(_decoded(match["proof"]), messages):
            raise ScramError("the proof is wrong")
        return b"v=" + b64encode(_hmac(self.mechanism, self._kept.server_key, messages))

    def _proves(self, proof: bytes, messages: bytes) -> bool:
        assert self._kept is not None
        signature = _hmac(self.mechanism, self._kept.stored_key, messages)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(_hash(self.mechanism, client_key), self._kept.stored_key)


def _name(text: bytes) -> str:
    """A name as written in a message: ',' and '=' are =2C and =3D (RFC 5802, 5.1)."""
    if re.search(rb"=(?!2C|3D)", text):
        raise ScramError("the user's name cannot be read")
    try:
        return text.decode().replace("=2C", ",").replace("=3D", "=")
    except UnicodeDecodeError:
        raise ScramError("the user's name is not UTF-8") from None


def _decoded(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise ScramError("not base64") from None


def _hmac(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash)


def _hash(mechanism: Mechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash, data).digest()
