"""One question to an issuer: bounded in bytes and in time as a whole, redirects not followed. Blocks.

Called by `keys` and `grants`, in a thread where there is an event loop. Addresses are
https, checked against the system's authorities (SSL_CERT_FILE names others); http only on loopback; of keys
also file:/… . What an issuer sends is a stranger's: it is cut off at `BYTES_MAX` and `SECONDS`, which are for
all of it: the look-up of its name, each of its addresses, TLS, the answer.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import SplitResult, urlencode, urlsplit

from headwater.oidc.errors import BadIssuer, IssuerUnreachable

BYTES_MAX = 256 * 1024
SECONDS = 10.0
DISCOVERY = "/.well-known/openid-configuration"
T = TypeVar("T")


class Place(NamedTuple):
    """One of the addresses of a name."""

    family: int
    address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


class Answer(NamedTuple):
    status: int
    body: bytes


def check(url: str, what: str, *, files: bool = False) -> str:
    """The address, if tokens and keys may travel there. Raises BadIssuer."""
    parts = _split(url)
    if files and parts.scheme == "file" and parts.path.startswith("/"):
        return url
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return url
    raise BadIssuer(
        f"{what} is {url[:200]!r}, which nobody could trust",
        hint="write https://…; plain http is for 127.0.0.1 and localhost only",
    )


def fetch(
    url: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    bytes_max: int = BYTES_MAX,
    seconds: float = SECONDS,
) -> Answer:
    """GET, or POST of a form. Raises IssuerUnreachable."""
    parts = _split(check(url, "the issuer's address", files=form is None))
    if parts.scheme == "file":
        return _file(parts.path, bytes_max)
    sent = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    if form is not None:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    place = parts.path or "/"
    if parts.query:
        place += f"?{parts.query}"
    deadline = time.monotonic() + seconds
    connection = http.client.HTTPConnection(parts.netloc.rpartition("@")[2])
    try:
        connection.sock = _reached(parts, deadline)
        with _cut_off(connection.sock, deadline):
            if isinstance(connection.sock, ssl.SSLSocket):
                connection.sock.do_handshake()
            body = urlencode(form).encode() if form is not None else None
            connection.request("GET" if form is None else "POST", place, body, sent)
            response = connection.getresponse()
            found = response.read(bytes_max + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: of odd names
        why = f"took longer than {seconds:g} s" if time.monotonic() >= deadline else str(error)
        raise IssuerUnreachable(f"{shown(url)} gave no answer: {why}") from error
    finally:
        connection.close()
    if time.monotonic() >= deadline:
        raise IssuerUnreachable(f"{shown(url)} gave no answer: took longer than {seconds:g} s")
    if len(found) > bytes_max:
        raise IssuerUnreachable(f"{shown(url)} sent more than {bytes_max} bytes")
    return Answer(response.status, found)


def document(url: str) -> dict[str, object]:
    """A JSON object that lies there. Raises IssuerUnreachable."""
    answer = fetch(url)
    if answer.status != 200:
        raise IssuerUnreachable(f"{shown(url)} answered {answer.status}")
    return parsed(answer.body, url)


def keys_of(issuer: str) -> str:
    """Where an issuer says that its keys are. Raises IssuerUnreachable."""
    where = discovered(issuer).get("jwks_uri")
    if not isinstance(where, str) or not where:
        raise IssuerUnreachable(f"{issuer} does not say where its keys are")
    return where


def discovered(issuer: str) -> dict[str, object]:
    """What an issuer says of itself (OpenID Connect Discovery 1.0, RFC 8414).

    Raises IssuerUnreachable, also where it calls itself otherwise: it could be another's document.
    """
    url = issuer.rstrip("/") + DISCOVERY
    found = document(url)
    if found.get("issuer") != issuer:
        raise IssuerUnreachable(
            f"{shown(url)} speaks for {str(found.get('issuer'))[:200]!r}",
            hint="write the issuer exactly as it calls itself there, with or without the last /",
        )
    return found


def parsed(body: bytes, url: str) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise IssuerUnreachable(f"{shown(url)} sent no JSON object")
    return found


def shown(url: str) -> str:
    """Without query and login, which may hold secrets."""
    parts = _split(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reached(parts: SplitResult, deadline: float) -> socket.socket:
    """Connected, the handshake of TLS not begun."""
    secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    found = within(
        deadline - time.monotonic(),
        lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
    )
    plain = connected([Place(each[0], each[4]) for each in found], deadline)
    if not secure:
        return plain
    context = ssl.create_default_context()
    return context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)


def connected(places: Sequence[Place], deadline: float) -> socket.socket:
    """To the first that answers; what time is left is shared by those not tried yet. Raises OSError."""
    failure: OSError = TimeoutError("no address is left")
    for tried, place in enumerate(places):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        found = socket.socket(place.family)
        try:
            found.settimeout(left / (len(places) - tried))
            found.connect(place.address)
            found.settimeout(max(deadline - time.monotonic(), 0.001))
            return found
        except OSError as error:
            found.close()
            failure = error
    raise failure


def within(seconds: float, work: Callable[[], T]) -> T:
    """What it returns or raises; TimeoutError where that takes longer: no look-up can be cut off."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except (OSError, ValueError) as error:
            done.set_exception(error)

    threading.Thread(target=run, name="issuer look-up", daemon=True).start()
    return done.result(seconds)


@contextlib.contextmanager
def _cut_off(connection: socket.socket, deadline: float) -> Iterator[None]:
    """A time-out of a socket is one of each read: whoever sends a byte a second would never meet it."""
    done = threading.Event()

    def watch() -> None:
        if not done.wait(max(deadline - time.monotonic(), 0)):
            with contextlib.suppress(OSError):
                # Not SSLSocket's own, which takes its TLS away from whoever reads just now.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    threading.Thread(target=watch, name="issuer deadline", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _file(path: str, bytes_max: int) -> Answer:
    try:
        with Path(path).open("rb") as file:
            found = file.read(bytes_max + 1)
    except OSError as error:
        raise IssuerUnreachable(f"{path} cannot be read: {error.strerror}") from error
    if len(found) > bytes_max:
        raise IssuerUnreachable(f"{path} has more than {bytes_max} bytes")
    return Answer(200, found)
