"""Both servers, secured alike: five listeners, users, an authorizer.

PLAINTEXT        User:ANONYMOUS, who is a super user here: for setting things up
SASL_PLAINTEXT   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
SSL              no certificate asked for
SASL_SSL         as SASL_PLAINTEXT
MTLS             SSL that demands a certificate
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwater.project.ports import free_port
from headwater.testing.apache_kafka import QUICK_JVM, apache_kafka
from headwater.testing.certificates import Authority, Issued
from tests.compat.waiting import until
from tests.compat.wire import Wire, connected

LISTENERS = {
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "SASL_SSL": "SASL_SSL",
    "MTLS": "SSL",
}
PLAIN_USER, PLAIN_PASSWORD = "paul", "pauls-Secret-in-a-file"
_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{PLAIN_USER}="{PLAIN_PASSWORD}";'
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "100",
    "listener.name.mtls.ssl.client.auth": "required",
    **{
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": line
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism, line in (
            ("plain", _PLAIN),
            ("scram-sha-256", _SCRAM),
            ("scram-sha-512", _SCRAM),
        )
    },
}


@dataclass(frozen=True)
class Certificates:
    """What the servers and their clients show each other."""

    authority: Authority
    server: Issued
    client: Issued
    expired: Issued
    stranger: Issued
    """Signed by somebody whom nobody trusts."""
    strangers_authority: Authority

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        authority, other = Authority(folder / "ours"), Authority(folder / "other", "other")
        return cls(
            authority,
            authority.issue("server", hosts=["localhost", "127.0.0.1"]),
            authority.issue("client", subject="/C=CH/O=shop/OU=dev/CN=ann"),
            authority.issue("expired", expired=True),
            other.issue("stranger"),
            other,
        )

    def settings(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server.bundle),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }


@dataclass(frozen=True)
class Secured:
    """One of the two servers; `listeners` has the addresses."""

    target: str
    listeners: Mapping[str, str]
    certificates: Certificates
    log: Path
    data: Path
    made: set[str] = field(default_factory=set)

    @property
    def bootstrap(self) -> str:
        """Of the plain listener, where everything is allowed."""
        return self.listeners["PLAINTEXT"]

    @contextlib.contextmanager
    def admin(self) -> Iterator[Wire]:
        with connected(self.bootstrap) as wire:
            yield wire


@contextlib.contextmanager
def kafka(certificates: Certificates) -> Iterator[Secured]:
    settings = {**SETTINGS, **certificates.settings()}
    with apache_kafka(settings, listeners=LISTENERS, jvm=QUICK_JVM) as node:
        where = {"PLAINTEXT": node.bootstrap, **node.listeners}
        yield Secured("kafka", where, certificates, node.log, node.data)


@contextlib.contextmanager
def headwater(certificates: Certificates, home: Path, **more: str) -> Iterator[Secured]:
    names = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
    where = {name: f"127.0.0.1:{free_port()}" for name in names}
    settings = {
        **SETTINGS,
        **certificates.settings(),
        "listeners": ",".join(f"{name}://{address}" for name, address in where.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in names.items()),
        **more,
    }
    home.mkdir(parents=True, exist_ok=True)
    file, log = home / "server.properties", home / "broker.log"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ["broker", "--data", str(home / "data"), "--config", str(file), "--log-level", "debug"]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *words],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        until(lambda: _answers(process, where["PLAINTEXT"], log), "headwater to answer")
        yield Secured("headwater", where, certificates, log, home / "data")
        assert process.poll() is None, f"it died:\n{log.read_text()[-3000:]}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(process: subprocess.Popen[bytes], bootstrap: str, log: Path) -> bool:
    assert process.poll() is None, f"headwater did not start:\n{log.read_text()[-3000:]}"
    try:
        with connected(bootstrap) as wire:
            return bool(wire.versions)
    except OSError:
        return False
