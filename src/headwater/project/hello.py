"""Whether a Kafka broker answers at an address, found out with one request and no client library.

Called by whoever starts a broker and waits for it, and by commands that want to say at once that
none is there: a client would go on trying until its time is up.
"""

from __future__ import annotations

import enum
import socket
import struct
from http.client import HTTPConnection, HTTPException

# ApiVersions version 0: size, api key 18, version 0, correlation id 1, no client id. Every broker
# takes it as the first request of a connection, whatever versions it speaks.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
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


def page_answers(address: str, timeout_s: float) -> bool:
    """Whether the console is at HOST:PORT, and well."""
    host, _, port = address.strip().rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _read(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            break
        received += more
    return received
