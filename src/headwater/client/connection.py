"""One connection to one broker: frames, versions, TLS, login. `cluster.Cluster` owns several.

Messages are named by their API key and given as dicts, as in `raw.messages`; answers are kio's entities
of the version that both sides know. Fetch alone is read by hand (`fetch`), to spare a copy of the
records. Requests are answered in order, so `send` may run ahead of `receive`.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import contextlib
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map as _names
from kio.schema.index import schema_name_map
from kio.serial import entity_reader

from headwater.client import security
from headwater.client.errors import LoginRefused, RequestRefused
from headwater.client.tcp_socket import Disconnected as Disconnected
from headwater.client.tcp_socket import connected
from headwater.oidc.errors import IssuerUnreachable
from headwater.wire.writer import entity_writer

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
SASL_HANDSHAKE, API_VERSIONS, CREATE_TOPICS = 17, 18, 19
INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN = 22, 24, 25, 26
TXN_OFFSET_COMMIT, OFFSET_COMMIT, OFFSET_FETCH = 28, 8, 9
DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, SASL_AUTHENTICATE = 32, 35, 36

_FRAME_BYTES_MAX = 1 << 30
"""A size beyond this is no answer of Kafka's: something else listens there."""
_SIZE = struct.Struct(">i")
_LOGIN = (SASL_HANDSHAKE, SASL_AUTHENTICATE)

Room = Callable[[int], memoryview]
"""Gives memory of a size, for an answer to be read into."""


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))


class Connection:
    """A socket on which the two sides know each other. Not for several threads at once."""

    def __init__(
        self,
        address: tuple[str, int],
        settings: Mapping[str, str],
        context: ssl.SSLContext | None,
        timeout_s: float,
    ) -> None:
        self.address = address
        self._settings = settings
        self._client_id = settings.get("client.id", "headwater-spark").encode()
        self._correlation = 0
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._socket = connected(address, settings, context, timeout_s)
        self.versions: dict[int, tuple[int, int]] = {}
        self._renew_at = 0.0
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._learn_versions()
            if settings.get("security.protocol", "").upper().startswith("SASL"):
                self._log_in()
            undo.pop_all()

    def close(self) -> None:
        self._socket.close()

    @property
    def pending(self) -> int:
        """Requests whose answers have not been taken."""
        return len(self._waiting)

    def settle(self, timeout_s: float) -> None:
        """How long one read from the socket may take."""
        self._socket.settimeout(timeout_s)

    def version(self, api: int, most: int | None = None) -> int:
        """The newest version of an API that both sides, and `most`, allow."""
        if api not in self.versions:
            raise RequestRefused(f"The broker at {self._where} does not know {_name(api)}.")
        low, high = self.versions[api]
        known = [each for each in _kio_versions(api) if low <= each <= high]
        known = [each for each in known if most is None or each <= most]
        if not known:
            raise RequestRefused(f"The broker at {self._where} speaks no common {_name(api)}.")
        return known[-1]

    @property
    def _where(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # ---- questions and answers ------------------------------------------------------------------

    def ask(self, api: int, body: Mapping[str, Any], most: int | None = None) -> Any:
        """One request, and its answer as an entity."""
        if self._waiting:  # who sent before has gone without its answer: the next one would be that
            raise Disconnected(f"{self._where}: an answer was never read")
        self.send(api, body, most)
        return self.receive()

    def send(self, api: int, body: Mapping[str, Any], most: int | None = None) -> int:
        """Send without waiting; the version in which it was said."""
        if self._renew_at and self._may_renew(api):
            self._log_in()
        version = self.version(api, most) if self.versions or api != API_VERSIONS else 0
        self._correlation += 1
        frame = _encode(api, version, self._correlation, self._client_id, body)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise Disconnected(f"{self._where}: {error}") from error
        self._waiting.append((self._correlation, api, version))
        return version

    def _may_renew(self, api: int) -> bool:
        """KIP-368: a login that ends is renewed on its connection, with what is there for it."""
        is_due = api not in _LOGIN and not self._waiting and time.monotonic() >= self._renew_at
        return is_due and security.has_token(self._settings)

    def receive(self) -> Any:
        """The next answer, as an entity."""
        frame, start, api, version = self.receive_frame()
        try:
            return _reader(api, version)(frame, start)[0]
        except Exception as error:  # kio raises what its parser met
            raise Disconnected(
                f"{self._where} answered {_name(api)} with nonsense: {error}"
            ) from error

    def receive_frame(self, room: Room = _fresh) -> tuple[memoryview, int, int, int]:
        """The next answer unread: its bytes, in memory of `room`, where the body begins, API and version."""
        frame = self._frame(room)
        correlation, api, version = self._waiting.popleft()
        if int.from_bytes(frame[:4], "big") != correlation:
            raise Disconnected(f"{self._where} answered another question than {_name(api)}")
        start = 4
        if api != API_VERSIONS and _response_is_flexible(api, version):
            start += 1  # the header's tagged fields, of which there are none yet
        return frame, start, api, version

    def _frame(self, room: Room) -> memoryview:
        (size,) = _SIZE.unpack(self._exactly(4, _fresh))
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise Disconnected(f"{self._where} does not speak Kafka's protocol")
        return self._exactly(size, room)

    def _exactly(self, size: int, room: Room) -> memoryview:
        view = room(size)
        filled = 0
        while filled < size:
            try:
                count = self._socket.recv_into(view[filled:], size - filled)
            except OSError as error:
                raise Disconnected(f"{self._where}: {error or type(error).__name__}") from error
            if not count:
                raise Disconnected(f"{self._where} closed the connection")
            filled += count
        return view.toreadonly()

    # ---- getting acquainted ---------------------------------------------------------------------

    def _learn_versions(self) -> None:
        answer = self.ask(API_VERSIONS, {})
        self.versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }

    def _log_in(self) -> None:
        mechanism = self._settings["sasl.mechanism"].upper()
        answer = self.ask(SASL_HANDSHAKE, {"mechanism": mechanism}, 1)
        if answer.error_code is not ErrorCode.none:
            offered = ", ".join(answer.mechanisms) or "none"
            raise LoginRefused(
                f"The broker at {self._where} does not offer {mechanism}.",
                hint=f"It offers {offered}: set kafka.sasl.mechanism.",
            )
        try:
            security.log_in(self._settings, self._exchange)
        except IssuerUnreachable as error:
            raise Disconnected(error.sentence) from error

    def _exchange(self, token: bytes) -> bytes:
        answer = self.ask(SASL_AUTHENTICATE, {"auth_bytes": token}, 2)
        if answer.error_code is not ErrorCode.none:
            user = security.user(self._settings)
            raise LoginRefused(
                f"The broker at {self._where} refused user {user!r}: {answer.error_message}.",
                hint="Check kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism.",
            )
        lifetime_s = answer.session_lifetime.total_seconds()
        self._renew_at = time.monotonic() + security.renewal(lifetime_s) if lifetime_s else 0.0
        return bytes(answer.auth_bytes)


# ---- messages ----------------------------------------------------------------------------------


def _name(api: int) -> str:
    return "".join(part.capitalize() for part in str(_names[api]).split("_"))


@cache
def _kio_versions(api: int) -> list[int]:
    return sorted(schema_name_map[_names[api]])


@cache
def _request(api: int, version: int) -> tuple[Callable[..., None], bool]:
    schema: Any = load_request_schema(api, version)
    return entity_writer(schema), schema.__flexible__


@cache
def _reader(api: int, version: int) -> Callable[[memoryview, int], Any]:
    return entity_reader(load_response_schema(api, version))


@cache
def _response_is_flexible(api: int, version: int) -> bool:
    schema: Any = load_response_schema(api, version)
    return bool(schema.__flexible__)


def _encode(
    api: int, version: int, correlation: int, client_id: bytes, body: Mapping[str, Any]
) -> bytes:
    put, flexible = _request(api, version)
    chunks: list[Any] = [
        b"",
        struct.pack(">hhih", api, version, correlation, len(client_id)),
        client_id,
        b"\0" if flexible else b"",
    ]
    put(chunks.append, body)
    chunks[0] = _SIZE.pack(sum(map(len, chunks)))
    return b"".join(chunks)
