"""The master key: it wraps the keys of subjects, so that whoever reads their topic has none of them.

`keys` asks for it when it first needs one. In this order:

    Keys(master=…)                    32 bytes
    HEADWATER_MASTER_KEY              64 hexadecimal digits, or file:/run/secrets/master, a file with them
    ~/.config/headwater/master.key    the same; made, for its user alone, with the first key of a log
    ($XDG_CONFIG_HOME/headwater/…)

A wrapped key, as it lies in its topic (text):

    "1:" MASTER ID ":" base64(nonce, 12 bytes; AES-256-GCM of the key, with the record's key beside it)

The id is the beginning of a hash of the master key, and tells nothing of it. Must not change: what was
wrapped must be unwrapped for as long as the log is kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
from base64 import b64decode, b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater.events.errors import EventsError
from headwater.secrets import expand

logger = logging.getLogger("headwater.events")

VARIABLE = "HEADWATER_MASTER_KEY"
KEY_BYTES = 32
NONCE_BYTES = 12
WRAPPED_BYTES = NONCE_BYTES + KEY_BYTES + 16
_VERSION = b"1:"
_ID_DIGITS = 12


class MasterKey:
    """Wraps and unwraps."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise EventsError(
                f"a master key has {KEY_BYTES} bytes, not {len(key)}", hint="openssl rand -hex 32"
            )
        self._cipher = AESGCM(key)
        self.id = hashlib.sha256(b"headwater master key\0" + key).hexdigest()[:_ID_DIGITS]

    def wrap(self, key: bytes, place: bytes) -> bytes:
        """`place` is the key of the record: no wrapped key is another's."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, key, place)
        return _VERSION + self.id.encode() + b":" + b64encode(sealed)

    def unwrap(self, wrapped: bytes, place: bytes) -> bytes | None:
        """None: it was not wrapped by this key, or for another place."""
        return self.decrypt(b64decode(wrapped.rpartition(b":")[2]), place)

    def decrypt(self, sealed: bytes, beside: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], beside)
        except InvalidTag:
            return None


def wrapped_by(value: bytes) -> str | None:
    """The id of the master key of a wrapped key; None: this is none."""
    if not value.startswith(_VERSION):
        return None
    master, _, sealed = value[len(_VERSION) :].partition(b":")
    try:
        is_whole = len(b64decode(sealed, validate=True)) == WRAPPED_BYTES
        return master.decode("ascii") if is_whole and len(master) == _ID_DIGITS else None
    except ValueError:
        return None


def configured() -> MasterKey | None:
    """The one that this process is given; None: nobody has made one here."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _parsed(expand(given if given.startswith("file:") else f"${{{VARIABLE}}}"), VARIABLE)
    path = default_path()
    return _parsed(expand(f"file:{path}"), str(path)) if path.exists() else None


def create() -> MasterKey:
    """A new one in the default place, or the one that another process has just put there."""
    path = default_path()
    try:
        _write(path)
    except OSError as error:
        raise EventsError(
            f"a master key for personal data cannot be kept in {path}: {error.strerror}",
            hint=f"set {VARIABLE} to 64 hexadecimal digits, or to file:/… with them: openssl rand -hex 32",
        ) from error
    return _parsed(expand(f"file:{path}"), str(path))


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(os.urandom(KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(made, path)  # whole or not at all, and never over another's
        logger.warning(
            "%s is the new master key of personal data: keep a copy, for without it nobody can read them; "
            "other machines need it too, there or in %s",
            path,
            VARIABLE,
        )
    except FileExistsError:
        pass
    finally:
        made.unlink()


def default_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headwater" / "master.key"


def _parsed(text: str, where: str) -> MasterKey:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise EventsError(
            f"{where} holds no master key: {2 * KEY_BYTES} hexadecimal digits",
            hint=f"put there what it held when the keys were made; a new one: openssl rand -hex {KEY_BYTES}",
        )
    return MasterKey(key)
