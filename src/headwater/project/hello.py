"""Whether a Kafka broker answers at an address, found out with one request and no client library.

Called by whoever starts a broker and waits for it, and by commands that want to say at once that
none is there: a client would go on trying until its time is up.
"""

from __future__ import annotations

import enum
import socket
import ssl
import struct
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected

# ApiVersions version 0: size, api key 18, version 0, correlation id 1, no client id. Every broker
# takes it as the first request of a connection, whatever versions it speaks.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
# Metadata version 2, about no topic: the first version that tells the cluster's id.
_METADATA = struct.pack(">ihhihi", 14, 3, 2, 1, -1, 0)
_ANSWER_BYTES_MAX = 1 << 20
_CORRELATION = struct.pack(">i", 1)


class Answer(enum.Enum):
    BROKER = "a broker"
    SILENCE = "something that does not answer as a broker"
    NOBODY = "nobody"


def hello(address: str, timeout_s: float) -> Answer:
    """Who answers at HOST:PORT."""
    host, _, port = address.strip().rpartition(":")
    place = (host.strip("[]"), int(port) if port.isdigit() else -1)
    try:
        connection = socket.create_connection(place, timeout=timeout_s)
    except (OSError, OverflowError, UnicodeError):
        return Answer.NOBODY
    with connection:
        try:
            connection.sendall(_REQUEST)
            head = _read(connection, 8)
        except OSError:
            return Answer.SILENCE
    return Answer.BROKER if head[4:] == _CORRELATION else Answer.SILENCE


def cluster_at(address: str, timeout_s: float) -> str | None:
    """The id of the cluster whose broker answers at HOST:PORT; None if none does, or wants a login first."""
    host, _, port = address.strip().rpartition(":")
    place = (host.strip("[]"), int(port) if port.isdigit() else -1)
    try:
        with socket.create_connection(place, timeout=timeout_s) as connection:
            connection.sendall(_METADATA)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            if not 0 < size <= _ANSWER_BYTES_MAX:
                return None
            return _cluster_in(_exactly(connection, size))
    except (OSError, OverflowError, UnicodeError, struct.error, IndexError):
        return None


def _cluster_in(answer: bytes) -> str | None:
    """From a Metadata answer, version 2: correlation id, [node id, host, port, rack], cluster id."""
    if answer[:4] != _CORRELATION:
        return None
    (brokers,) = struct.unpack_from(">i", answer, 4)
    at = 8
    for _ in range(brokers):
        _, at = _text(answer, at + 4)
        _, at = _text(answer, at + 4)
    return _text(answer, at)[0]


def _text(answer: bytes, at: int) -> tuple[str | None, int]:
    (length,) = struct.unpack_from(">h", answer, at)
    if length < 0:
        return None, at + 2
    end = at + 2 + length
    if end > len(answer):
        raise IndexError("the answer ends before its text")
    return answer[at + 2 : end].decode(), end


_WANTS_CERTIFICATE = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE")


def page_answers(address: str, timeout_s: float, *, is_secure: bool = False) -> bool:
    """Whether the console, or the edges, are at HOST:PORT, and well."""
    host, _, port = address.strip().rpartition(":")
    place = (host.strip("[]"), int(port))
    connection = (
        HTTPSConnection(*place, timeout=timeout_s, context=_unchecked())
        if is_secure
        else HTTPConnection(*place, timeout=timeout_s)
    )
    try:
        connection.connect()
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
        return is_secure  # it has shown its certificate, and wants to see ours (ssl.client.auth)
    except ssl.SSLError as error:
        return error.reason in _WANTS_CERTIFICATE
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _unchecked() -> ssl.SSLContext:
    """Nothing is told to whoever answers, and nothing of the answer is used but that there is one."""
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = _read(connection, count)
    if len(received) < count:
        raise IndexError("the answer ends early")
    return received


def _read(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            break
        received += more
    return received
