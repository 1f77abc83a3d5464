"""A real OpenID Connect issuer on loopback, for tests: keys, discovery, JWKS, tokens, a page to sign in on.

    with issuer() as idp:
        token = idp.token("ann", audience="shop", groups=["ops"])
        idp.rotate()                       # new tokens are signed by a new key; the old one is still listed
        idp.retire()                       # only the newest is

The token endpoint gives tokens for the client credentials of `clients` and for codes; whoever comes to the
authorization endpoint is taken to be `person` and sent back at once. `failing`, `padding` and `pause_s` make
the keys' address answer 503 (the token endpoint, too), with too many bytes, or too slowly; while a test holds
`answering` it says nothing. Signs whatever it is asked to: for tests.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

LIFETIME_S = 300
SigningKey = RSAKey | ECKey


@cache
def _first_key() -> tuple[SigningKey]:
    """Of all issuers of a process: to make one takes a while."""
    return (RSAKey.generate_key(2048, {"kid": secrets.token_hex(8)}),)


@dataclass
class Code:
    """What a code stands for until it is used."""

    client: str
    redirect: str
    nonce: str
    challenge: str
    person: str


@dataclass
class Issuer:
    """Made by `issuer()`; everything may be changed while it runs."""

    url: str
    clients: dict[str, str] = field(default_factory=lambda: {"shop": "shops-Secret"})
    audience: str = "headwater"
    person: str = "ann"
    groups: list[str] = field(default_factory=list)
    lifetime_s: int = LIFETIME_S
    failing: bool = False
    padding: int = 0
    pause_s: float = 0.0
    answering: threading.Lock = field(default_factory=threading.Lock)
    more_keys: list[dict[str, object]] = field(default_factory=list)  # listed as they are
    of_id: dict[str, object] = field(default_factory=dict)  # claims of who signs in; None: none
    expires_in: object = None  # as the token endpoint tells it; None: the truth
    asked: dict[str, int] = field(default_factory=dict)  # how often each path was
    keys: list[SigningKey] = field(default_factory=lambda: [*_first_key()])
    codes: dict[str, Code] = field(default_factory=dict)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def rotate(self) -> None:
        self.keys.append(ECKey.generate_key("P-256", {"kid": secrets.token_hex(8)}))

    def retire(self) -> None:
        del self.keys[:-1]

    def claims(self, subject: str = "ann", **more: object) -> dict[str, object]:
        """Of a good token; `more` replaces, and takes away what is None."""
        now = int(time.time())
        found = {
            "iss": self.url,
            "sub": subject,
            "aud": self.audience,
            "iat": now,
            "exp": now + self.lifetime_s,
            "groups": self.groups,
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def token(self, subject: str = "ann", **more: object) -> str:
        return self.signed(self.claims(subject, **more))

    def signed(self, claims: Mapping[str, object], key: SigningKey | None = None) -> str:
        """By the newest key, or by one that nobody knows."""
        by = key or self.keys[-1]
        algorithm = "RS256" if isinstance(by, RSAKey) else "ES256"
        return jwt.encode({"alg": algorithm, "kid": by.kid}, dict(claims), by)

    def discovery(self) -> dict[str, object]:
        return {
            "issuer": self.url,
            "jwks_uri": self.jwks_url,
            "token_endpoint": self.token_url,
            "authorization_endpoint": f"{self.url}/authorize",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def jwks(self) -> dict[str, object]:
        listed = [{**key.as_dict(private=False), "use": "sig"} for key in self.keys]
        return {"keys": [*self.more_keys, *listed], "padding": "x" * self.padding}

    def authorize(self, asked: Mapping[str, str]) -> str:
        """Where the browser is sent back to."""
        code = secrets.token_urlsafe(16)
        self.codes[code] = Code(
            asked["client_id"],
            asked["redirect_uri"],
            asked.get("nonce", ""),
            asked.get("code_challenge", ""),
            self.person,
        )
        back = urlencode({"code": code, "state": asked.get("state", "")})
        return f"{asked['redirect_uri']}?{back}"

    def grant(self, form: Mapping[str, str], client: str) -> dict[str, object] | None:
        """The token endpoint's answer to a client that has shown its secret; None: invalid_grant."""
        lifetime_s = self.lifetime_s if self.expires_in is None else self.expires_in
        found: dict[str, object] = {"token_type": "Bearer", "expires_in": lifetime_s}
        if form.get("grant_type") == "client_credentials":
            scope = form.get("scope", "")
            return {**found, "access_token": self.token(client, scope=scope), "scope": scope}
        kept = self.codes.pop(form.get("code", ""), None)
        if kept is None or (kept.client, kept.redirect) != (client, form.get("redirect_uri")):
            return None
        if kept.challenge != _challenge(form.get("code_verifier", "")):
            return None
        said = self.token(kept.person, **{"aud": client, "nonce": kept.nonce, **self.of_id})
        return {**found, "access_token": self.token(kept.person), "id_token": said}


@contextlib.contextmanager
def issuer() -> Iterator[Issuer]:
    """Running until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.issuer = found = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="issuer", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    issuer: Issuer


class _Handler(BaseHTTPRequestHandler):
    @property
    def _issuer(self) -> Issuer:
        assert isinstance(self.server, _Server)
        return self.server.issuer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._count(parts.path)
        if parts.path == "/.well-known/openid-configuration":
            self._json(200, self._issuer.discovery())
        elif parts.path == "/keys":
            self._keys()
        elif parts.path == "/authorize":
            self._answer(302, "Location", self._issuer.authorize(_flat(parts.query)))
        else:
            self._json(404, {})

    def do_POST(self) -> None:
        self._count(self.path)
        form = _flat(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())
        client, secret = self._client(form)
        if self.path != "/token" or self._issuer.failing:
            self._json(503 if self._issuer.failing else 404, {})
        elif self._issuer.clients.get(client) != secret:
            self._json(401, {"error": "invalid_client"})
        else:
            answer = self._issuer.grant(form, client)
            self._json(400 if answer is None else 200, answer or {"error": "invalid_grant"})

    def _client(self, form: Mapping[str, str]) -> tuple[str, str]:
        """RFC 6749, 2.3.1: by the header, or in the form."""
        scheme, _, coded = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            client, _, secret = base64.b64decode(coded).decode().partition(":")
            return unquote(client), unquote(secret)
        return form.get("client_id", ""), form.get("client_secret", "")

    def _keys(self) -> None:
        with self._issuer.answering:
            found = self._issuer.jwks()
        if self._issuer.failing:
            self._json(503, {})
        elif self._issuer.pause_s:
            self._slowly(json.dumps(found).encode())
        else:
            self._json(200, found)

    def _slowly(self, body: bytes) -> None:
        """A byte at a time, so that no single read takes long."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked has had enough
            for at in range(len(body)):
                if self._issuer.closing.wait(self._issuer.pause_s):
                    return
                self.wfile.write(body[at : at + 1])

    def _json(self, status: int, answer: Mapping[str, object]) -> None:
        self._answer(status, "Content-Type", "application/json", json.dumps(answer).encode())

    def _answer(self, status: int, name: str, value: str, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked has had enough
            self.wfile.write(body)

    def _count(self, path: str) -> None:
        self._issuer.asked[path] = self._issuer.asked.get(path, 0) + 1

    def log_message(self, format: str, *args: object) -> None: ...


def _flat(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
