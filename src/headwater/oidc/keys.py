"""An issuer's public keys (JWKS, RFC 7517): kept, and fetched again when they are old or one is unknown.

`validator` asks, on the event loop; the fetch runs in a thread, one at a time, whoever asks meanwhile waits
for it, and it goes on when they leave. Keys that the issuer has taken away are gone with the next fetch.
While the issuer is away the last keys stay in use: whoever is signed by them was vouched for.

    first question, or older than `refresh_s`   fetch; after a failure not again for `retry_s`. Who has keys
                                                waits for newer ones for `PATIENCE_S` only
    a kid that is not there                     fetch, at most once in `UNKNOWN_S`: strangers invent them

Only RSA keys of 2048 bits and more and the curves of JWA count; shared secrets (`oct`) never do. A key that
cannot be read is left out and named once in the log: the others are good nevertheless.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from joserfc.jwk import ECKey, OKPKey, RSAKey

from headwater.errors import HeadwaterError
from headwater.oidc import web
from headwater.oidc.errors import IssuerUnreachable, TokenRefused

REFRESH_S = 3_600.0
RETRY_S = 10.0
UNKNOWN_S = 10.0
PATIENCE_S = 1.0
KEYS_MAX = 100
_RSA_BITS_MIN = 2_048
_log = logging.getLogger("headwater.oidc")

PublicKey = RSAKey | ECKey | OKPKey
_KINDS: dict[str, type[PublicKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class UnusableKey(Exception):
    """A key of the issuer that counts for nothing here, and why."""


class Key(NamedTuple):
    kid: str | None
    algorithm: str | None
    """Where the issuer says that it is for one only."""
    public: PublicKey


class Keys:
    """Of one issuer; `url` empty: where its discovery document says."""

    def __init__(
        self,
        issuer: str,
        url: str = "",
        *,
        refresh_s: float = REFRESH_S,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises BadIssuer."""
        self._url = web.check(url, "the address of the issuer's keys", files=True) if url else ""
        self._issuer = issuer if url else web.check(issuer, "the issuer")
        self._refresh_s, self._retry_s = refresh_s, retry_s
        self._clock = clock
        self._found: tuple[Key, ...] | None = None
        self._again_at = clock()
        self._unknown_at = clock()
        self._failure = ""
        self._running: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._unusable: frozenset[str] = frozenset()
        self.fetches = 0

    async def find(self, kid: str | None, algorithm: str) -> PublicKey:
        """Raises TokenRefused where there is no such key, IssuerUnreachable where there are none at all."""
        if self._clock() >= self._again_at:
            await self._fetch(None if self._found is None else PATIENCE_S)
        if self._found is None:
            raise IssuerUnreachable(self._failure)
        found = _chosen(self._found, kid, algorithm)
        if found is None and self._clock() >= self._unknown_at:
            self._unknown_at = self._clock() + UNKNOWN_S
            await self._fetch()
            found = _chosen(self._found, kid, algorithm)
        if found is None:
            raise TokenRefused(f"the issuer has no key {str(kid)[:120]!r} for {algorithm}")
        return found

    async def _fetch(self, patience_s: float | None = None) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._fetched())
            self._began_at = self._clock()
        left = None if patience_s is None else self._began_at + patience_s - self._clock()
        await asyncio.wait([self._running], timeout=left if left is None else max(0.0, left))

    async def _fetched(self) -> None:
        self.fetches += 1
        try:
            self._found = await asyncio.to_thread(self._read)
        except Exception as error:  # what an issuer sends must not stop the logins by known keys
            self._failure = error.sentence if isinstance(error, HeadwaterError) else repr(error)
            _log.error("the keys of %s: %s", self._issuer, self._failure)
            self._again_at = max(self._again_at, self._clock() + self._retry_s)
        else:
            self._again_at = self._clock() + self._refresh_s

    def _read(self) -> tuple[Key, ...]:
        url = self._url or web.check(web.keys_of(self._issuer), "jwks_uri")
        listed = web.document(url).get("keys")
        if not isinstance(listed, list) or len(listed) > KEYS_MAX:
            raise IssuerUnreachable(f"{web.shown(url)} has no list of at most {KEYS_MAX} keys")
        found, unusable = [], set()
        for each in listed:
            try:
                found.append(_key(each))
            except UnusableKey as error:
                unusable.add(str(error))
        for sentence in sorted(unusable - self._unusable):
            _log.warning("of the keys of %s %s", self._issuer, sentence)
        self._unusable = frozenset(unusable)
        return tuple(key for key in found if key is not None)


def _key(given: object) -> Key | None:
    """None where it is not for checking signatures, or of a kind that we do not take. Raises UnusableKey."""
    if not isinstance(given, dict) or given.get("use", "sig") != "sig":
        return None
    kind = _KINDS.get(str(given.get("kty")))
    if kind is None:
        return None
    kid, algorithm = given.get("kid"), given.get("alg")
    try:
        public = kind.import_key({name: given[name] for name in given if name in _PUBLIC})
        bits = public.public_key.key_size if isinstance(public, RSAKey) else _RSA_BITS_MIN
    except Exception as error:  # the library raises whatever its parser met
        why = f"{type(error).__name__}: {error}"[:200]
        raise UnusableKey(f"{str(kid)[:120]!r} is left out, it cannot be read: {why}") from error
    if bits < _RSA_BITS_MIN:
        raise UnusableKey(f"{str(kid)[:120]!r} is left out: it is shorter than {_RSA_BITS_MIN}")
    return Key(
        kid if isinstance(kid, str) else None,
        algorithm if isinstance(algorithm, str) else None,
        public,
    )


_PUBLIC = ("kty", "n", "e", "crv", "x", "y")
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def _chosen(keys: tuple[Key, ...], kid: str | None, algorithm: str) -> PublicKey | None:
    """By its id; without one only where there is no choice."""
    fit = [
        key
        for key in keys
        if key.public.key_type == _FAMILIES[algorithm[:2]]
        and key.algorithm in (None, algorithm)
        and (kid is None or key.kid == kid)
    ]
    return fit[0].public if len(fit) == 1 or (fit and kid is not None) else None
