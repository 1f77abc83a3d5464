"""Requests to OpenSearch or Elasticsearch, and what its answers mean. The only place that talks to it.

opensearch+http://USER:PASSWORD@HOST:9200/PREFIX      (also https, and elasticsearch+…)
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Unavailable

TIMEOUT_S = 60.0
PASSING = (408, 429, 500, 502, 503, 504)
"""Answers after which the same request may succeed later."""

Answer = tuple[int, Any]


class SearchRequestRefused(HeadwaterError):
    """The server does not take a request, and would not take it later."""


class Server:
    """One connection, opened with the first request."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address.partition("+")[2] or address)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._shown = f"{parts.hostname}:{parts.port or 9200}"
        self._connection = kind(
            parts.hostname or "localhost", parts.port or 9200, timeout=TIMEOUT_S
        )
        self._prefix = parts.path.rstrip("/")
        self._headers: dict[str, str] = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    @classmethod
    @contextmanager
    def connected(cls, address: str) -> Iterator[Server]:
        server = cls(address)
        try:
            yield server
        finally:
            server._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        also: Iterable[int] = (),
    ) -> Answer:
        """Status and JSON of the answer: 200 and 201, and those in `also`; others are raised."""
        text = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        return self._exchange(method, path, text, "application/json", also)

    def bulk(self, lines: Iterable[str]) -> list[dict[str, Any]]:
        """What became of each action of a bulk request."""
        text = "".join(f"{line}\n" for line in lines).encode()
        _, answer = self._exchange("POST", "/_bulk", text, "application/x-ndjson", ())
        return [next(iter(item.values())) for item in answer["items"]]

    def _exchange(
        self, method: str, path: str, text: bytes | None, kind: str, also: Iterable[int]
    ) -> Answer:
        headers = {**self._headers, "Content-Type": kind} if text is not None else self._headers
        try:
            self._connection.request(method, self._prefix + path, text, headers)
            response = self._connection.getresponse()
            status, said = response.status, response.read()
        except ssl.SSLCertVerificationError as error:
            self._connection.close()
            raise SearchRequestRefused(f"{self._shown} is not who it should be: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unavailable(f"{self._shown} does not answer: {error}") from error
        if status in PASSING:
            raise Unavailable(f"{self._shown} answers {status}: {_reason(said)}")
        if status not in (200, 201, *also):
            raise SearchRequestRefused(
                f"{self._shown} refuses {method} {path}: {status} {_reason(said)}"
            )
        return status, json.loads(said) if said else None


def _reason(said: bytes) -> str:
    try:
        error = json.loads(said)["error"]
        return str(error["reason"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return said[:200].decode(errors="replace")
