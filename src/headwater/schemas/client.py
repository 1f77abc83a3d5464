"""A registry as headwater's own programs ask it: by HTTP, any that has Confluent's interface.

    with RegistryClient("http://127.0.0.1:8081") as registry:
        registry.register("orders-value", Schema(text))
        registry.by_id(7)

The address may hold a login (`http://NAME:${SECRET}@HOST:PORT`, shown nowhere). `https` is checked
against the system's authorities, or those of `ca`. What has an id never changes, so it is asked for once.
For several threads.
"""

from __future__ import annotations

import atexit
import base64
import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, unquote, urlencode, urlsplit

from headwater.client.errors import BrokerUnreachable
from headwater.errors import HeadwaterError
from headwater.schemas import records
from headwater.schemas.cache import Cache, letters_of
from headwater.schemas.errors import RegistryError
from headwater.schemas.model import AVRO, Schema
from headwater.schemas.records import Version
from headwater.secrets import expand, shown

TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 * 1024**2


class BadAddress(HeadwaterError):
    """What was given as the address of a registry is none."""


class RegistryClient:
    def __init__(self, url: str, ca: str | None = None) -> None:
        self.url = shown(url)
        self._parts = urlsplit(expand(url))
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise BadAddress(
                f"{self.url!r} is no address of a registry", hint="as in http://127.0.0.1:8081"
            )
        place, path = self._parts.netloc.rpartition("@")[2], self._parts.path.rstrip("/")
        self.address = f"{self._parts.scheme}://{place}{path}"
        """Without a login, for others to ask by."""
        self._tls = ssl.create_default_context(cafile=ca) if self._parts.scheme == "https" else None
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._parts.username is not None:
            login = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._known: Cache[tuple[str, int], Schema] = Cache()
        self._failed_s, self._why = -math.inf, ""
        """When it last gave no answer."""

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._drop()

    # ---- schemas --------------------------------------------------------------------------------

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        found = self.ask("GET", "/subjects", subjectPrefix=prefix or None, deleted=deleted)
        return [str(each) for each in found] if isinstance(found, list) else []

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        found = self.ask("GET", f"/subjects/{_name(subject)}/versions", deleted=deleted)
        return [each for each in found if isinstance(each, int)] if isinstance(found, list) else []

    def version(self, subject: str, number: int | None = None, *, deleted: bool = False) -> Version:
        """None: the latest."""
        which = "latest" if number is None else str(number)
        path = f"/subjects/{_name(subject)}/versions/{which}"
        return _version(self.ask("GET", path, deleted=deleted))

    def by_id(self, identity: int, subject: str = "") -> Schema:
        """`subject`: one of the context that the id is of."""
        known = self._known.get((subject, identity))
        if known is None:
            found = self.ask("GET", f"/schemas/ids/{identity}", subject=subject or None)
            schema = _schema(found)
            known = self._known.put((subject, identity), schema, letters_of(schema))
        return known

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Its id. Raises RegistryError, with the sentence that forbids it."""
        path = f"/subjects/{_name(subject)}/versions"
        found = self.ask("POST", path, _body(schema), normalize=normalize)
        identity = found.get("id") if isinstance(found, dict) else None
        if not isinstance(identity, int):
            raise RegistryError(500, f"{self.url} gave no id")
        return identity

    def find(self, subject: str, schema: Schema) -> Version | None:
        """The version that a schema is of a subject; None: it is none."""
        try:
            return _version(self.ask("POST", f"/subjects/{_name(subject)}", _body(schema)))
        except RegistryError as error:
            if error.status == 404:
                return None
            raise

    def complaints(self, subject: str, schema: Schema) -> list[str]:
        """Why it could not be the next version; empty: it could."""
        path = f"/compatibility/subjects/{_name(subject)}/versions"
        found = self.ask("POST", path, _body(schema), verbose=True)
        if not isinstance(found, dict) or found.get("is_compatible") is True:
            return []
        said = found.get("messages")
        texts = [str(each) for each in said] if isinstance(said, list) else []
        return texts or ["it is not compatible"]

    # ---- levels and modes -----------------------------------------------------------------------

    def level(self, subject: str | None = None) -> str:
        """The one in force."""
        path = "/config" if subject is None else f"/config/{_name(subject)}"
        found = self.ask("GET", path, defaultToGlobal=subject is not None)
        return str(found.get("compatibilityLevel")) if isinstance(found, dict) else ""

    def set_level(self, level: str, subject: str | None = None) -> None:
        path = "/config" if subject is None else f"/config/{_name(subject)}"
        self.ask("PUT", path, {"compatibility": level})

    # ---- HTTP -----------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, **query: object
    ) -> object:
        """The answer's JSON. Raises RegistryError with what the registry says, or BrokerUnreachable."""
        given = {key: _word(value) for key, value in query.items() if value not in (None, False)}
        place = self._parts.path.rstrip("/") + path + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        asked_s = time.monotonic()
        with self._lock:
            if asked_s <= self._failed_s:
                raise self._unreachable  # we waited for one without an answer: to ask again tells no more
            status, answer = self._answered(method, place, data)
        try:
            found: object = json.loads(answer)
        except ValueError:
            raise RegistryError(
                502, f"{self.url} answered {status} with what is no JSON: is it a registry?"
            ) from None
        if status >= 400:
            raise _refused(status, found)
        return found

    def _answered(self, method: str, place: str, data: bytes | None) -> tuple[int, bytes]:
        headers = dict(self._headers)
        if data is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        is_fresh = self._connection is None
        try:
            return self._once(method, place, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            # One that was kept may have been closed meanwhile; every request may be sent twice.
            if is_fresh:
                raise self._away(error) from None
        try:
            return self._once(method, place, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise self._away(error) from None

    def _once(
        self, method: str, place: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connected()
        self._connection.request(method, place, data, dict(headers))
        answer = self._connection.getresponse()
        found = answer.read(ANSWER_BYTES_MAX + 1)
        if len(found) > ANSWER_BYTES_MAX:
            raise OSError(f"it sends more than {ANSWER_BYTES_MAX} bytes")
        return answer.status, found

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _away(self, error: Exception) -> BrokerUnreachable:
        self._failed_s, self._why = time.monotonic(), str(error)
        return self._unreachable

    @property
    def _unreachable(self) -> BrokerUnreachable:
        return BrokerUnreachable(
            f"the registry at {self.url} does not answer: {self._why}",
            hint="is it running? headwater schemas serve, or [schemas] in headwater.toml",
        )


@lru_cache(maxsize=16)
def shared(url: str) -> RegistryClient:
    """One for all of this process that ask the registry there, until its end."""
    found = RegistryClient(url)
    atexit.register(found.close)
    return found


def _name(subject: str) -> str:
    return quote(subject, safe=":.")


def _word(value: object) -> str:
    return "true" if value is True else str(value)


def _body(schema: Schema) -> dict[str, object]:
    made: dict[str, object] = {"schema": schema.text, "schemaType": schema.kind}
    if schema.references:
        made["references"] = [each.as_json() for each in schema.references]
    return made


def _schema(found: object) -> Schema:
    value = found if isinstance(found, dict) else {}
    references = records.references_of(value.get("references")) or ()
    return Schema(str(value.get("schema", "")), str(value.get("schemaType") or AVRO), references)


def _version(found: object) -> Version:
    value = found if isinstance(found, dict) else {}
    number, identity = value.get("version"), value.get("id")
    if not isinstance(number, int) or not isinstance(identity, int):
        raise RegistryError(502, "the registry's answer names no version and no id")
    return Version(str(value.get("subject")), number, identity, _schema(found))


def _refused(status: int, found: object) -> RegistryError:
    value = found if isinstance(found, dict) else {}
    code = value.get("error_code")
    sentence = str(value.get("message") or f"the registry answered {status}")
    return RegistryError(code if isinstance(code, int) and code >= 400 else status, sentence)
