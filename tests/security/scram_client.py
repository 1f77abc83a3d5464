"""SCRAM as a client does it, and a login on the raw wire: so that a test can also do it wrong."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from typing import Any

from tests.compat.wire import Wire

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def first(user: str, nonce: str) -> bytes:
    name = user.replace("=", "=3D").replace(",", "=2C")
    return f"n,,n={name},r={nonce}".encode()


def final(mechanism: str, password: str, client_first: bytes, server_first: bytes) -> bytes:
    """The client's last message."""
    parts = dict(part.split(b"=", 1) for part in server_first.split(b","))
    key = salted(mechanism, password, b64decode(parts[b"s"]), int(parts[b"i"]))
    name = HASHES[mechanism]
    client_key = hmac.digest(key, b"Client Key", name)
    stored = hashlib.new(name, client_key).digest()
    bare = b"c=biws,r=" + parts[b"r"]
    message = client_first[3:] + b"," + server_first + b"," + bare
    signature = hmac.digest(stored, message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return bare + b",p=" + b64encode(proof)


def log_in(wire: Wire, mechanism: str, user: str, password: str, version: int = 2) -> Any:
    """Handshake and tokens; the last answer of SaslAuthenticate."""
    answer = wire.ask("sasl_handshake", 1, mechanism=mechanism)
    assert answer.error_code == 0, answer
    if mechanism == "PLAIN":
        token = f"\0{user}\0{password}".encode()
        return wire.ask("sasl_authenticate", version, auth_bytes=token)
    begin = first(user, b64encode(os.urandom(18)).decode())
    answer = wire.ask("sasl_authenticate", version, auth_bytes=begin)
    if answer.error_code:
        return answer
    end = final(mechanism, password, begin, answer.auth_bytes)
    return wire.ask("sasl_authenticate", version, auth_bytes=end)


def give_password(
    wire: Wire, mechanism: str, user: str, password: str, iterations: int = 4096
) -> Any:
    """AlterUserScramCredentials for one user; the error code."""
    salt = os.urandom(20)
    change = {
        "name": user,
        "mechanism": CODES[mechanism],
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted(mechanism, password, salt, iterations),
    }
    return wire.ask("alter_user_scram_credentials", 0, upsertions=[change]).results[0].error_code
