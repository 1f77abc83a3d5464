"""Fixtures: both servers, secured alike, started once. `-k headwater` or `-k kafka` picks one."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest

from headwater.testing.apache_kafka import MissingServer
from tests.compat.missing import skip_or_fail
from tests.compat.waiting import until
from tests.compat.wire import Wire, connected
from tests.security import servers
from tests.security.scram_client import give_password, log_in
from tests.security.servers import Certificates, Secured

PASSWORD = "Wonder-l4nd,=pass"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def ours(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with servers.headwater(certificates, tmp_path_factory.mktemp("headwater")) as server:
        yield server


@pytest.fixture(scope="session")
def theirs(certificates: Certificates) -> Iterator[Secured]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(servers.kafka(certificates))
        except MissingServer as missing:
            skip_or_fail(f"Apache Kafka cannot run here: {missing}")
            raise AssertionError("unreachable") from missing
        yield server


@pytest.fixture(params=["headwater", "kafka"])
def secured(request: pytest.FixtureRequest) -> Secured:
    return request.getfixturevalue({"headwater": "ours", "kafka": "theirs"}[request.param])


@pytest.fixture
def password() -> str:
    return PASSWORD


@pytest.fixture
def user(secured: Secured, password: str) -> str:
    """A new user who can log in by all three mechanisms where the server lets it."""
    return new_user(secured, password)


def new_user(server: Secured, password: str) -> str:
    name = f"ann-{uuid.uuid4().hex[:8]}"
    with server.admin() as wire:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert give_password(wire, mechanism, name, password) == 0
    until(lambda: _may_log_in(server, name, password), "the password to be in force")
    return name


def _may_log_in(server: Secured, user: str, password: str) -> bool:
    """Kafka learns of passwords a moment after it has acknowledged them, in their order."""
    with connected(server.listeners["SASL_PLAINTEXT"]) as wire:
        return log_in(wire, "SCRAM-SHA-512", user, password).error_code == 0


@pytest.fixture
def as_user() -> Callable[[Secured, str], contextlib.AbstractContextManager[Wire]]:
    return logged_in


@contextlib.contextmanager
def logged_in(server: Secured, user: str) -> Iterator[Wire]:
    with connected(server.listeners["SASL_PLAINTEXT"]) as wire:
        wire.versions  # noqa: B018  (a client asks before it logs in)
        answer = log_in(wire, "SCRAM-SHA-256", user, PASSWORD)
        assert answer.error_code == 0, answer
        yield wire
