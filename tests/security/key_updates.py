"""A client that asks for new keys as often as it likes, which no library does: RFC 8446, 4.6.3, 5.2, 7.1-7.3.

It takes its place after the handshake, from what OpenSSL writes of the secrets (`keylog_filename`), and must
then be the only one who writes; reading stays with OpenSSL.
"""

from __future__ import annotations

import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, DATA = 22, 23
KEY_UPDATE = bytes((24, 0, 0, 1, 1))
"""The other side shall have new keys, too."""


def logged(client: ssl.SSLContext, file: Path) -> ssl.SSLContext:
    """For one connection, with TLS 1.3 and one cipher."""
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    client.keylog_filename = str(file)
    return client


class Sender:
    """Makes a client's records, from the first after the handshake."""

    def __init__(self, file: Path) -> None:
        lines = [line.split() for line in file.read_text().splitlines()]
        (secret,) = (each[2] for each in lines if each[0] == "CLIENT_TRAFFIC_SECRET_0")
        self._secret = bytes.fromhex(secret)
        assert len(self._secret) == 48, "TLS_AES_256_GCM_SHA384"
        self._begin()

    def _begin(self) -> None:
        self._number = 0
        self._key = AESGCM(self._expand(b"key", 32))
        self._start = int.from_bytes(self._expand(b"iv", 12), "big")

    def _expand(self, label: bytes, count: int) -> bytes:
        label = b"tls13 " + label
        info = struct.pack(">HB", count, len(label)) + label + b"\0"
        return HKDFExpand(hashes.SHA384(), count, info).derive(self._secret)

    def data(self, body: bytes, padding: int = 0) -> bytes:
        return self._record(DATA, body, padding)

    def update(self, padding: int = 0) -> bytes:
        record = self._record(HANDSHAKE, KEY_UPDATE, padding)
        self._secret = self._expand(b"traffic upd", 48)
        self._begin()
        return record

    def _record(self, kind: int, body: bytes, padding: int) -> bytes:
        inner = body + bytes((kind,)) + bytes(padding)
        head = struct.pack(">BHH", DATA, 0x0303, len(inner) + 16)
        nonce = (self._start ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, inner, head)
