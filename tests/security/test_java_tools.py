"""Kafka's own tools, logged in, against headwater: ACLs and users."""

from __future__ import annotations

import uuid

import pytest

from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, java_tool
from tests.compat.missing import skip_or_fail
from tests.security.scram_client import give_password
from tests.security.servers import Secured

ACLS, CONFIGS = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def tool(ours: Secured, tmp_path):
    """Runs a tool as the super user root, through SASL_SSL."""
    with ours.admin() as wire:
        assert give_password(wire, "SCRAM-SHA-512", "root", "roots-password") == 0
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={_MODULE} required username="root" password="roots-password";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ours.certificates.authority.certificate}\n"
    )

    def run(main: str, *words: str) -> str:
        address = ours.listeners["SASL_SSL"]
        try:
            done = java_tool(
                main,
                *("--bootstrap-server", address, "--command-config", str(file), *words),
                jvm=QUICK_JVM,
            )
        except MissingServer as missing:
            skip_or_fail(f"Kafka's tools cannot run here: {missing}")
            raise AssertionError("unreachable") from missing
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_acls_are_added_and_listed(tool):
    added(tool, f"tools-{uuid.uuid4().hex[:8]}")


@pytest.mark.soak
def test_acls_are_removed(tool):
    chosen = added(tool, f"tools-{uuid.uuid4().hex[:8]}")
    tool(ACLS, "--remove", "--force", *chosen)
    assert "bob" not in tool(ACLS, "--list", *chosen)


def added(tool, topic: str) -> tuple[str, ...]:
    chosen = ("--topic", topic, "--resource-pattern-type", "prefixed")
    grant = ("--allow-principal", "User:bob", "--operation", "Read", "--allow-host", "10.0.0.1")
    tool(ACLS, "--add", *grant, *chosen)
    match = ("--topic", f"{topic}-x", "--resource-pattern-type", "match")
    shown = tool(ACLS, "--list", *match)
    assert "principal=User:bob, host=10.0.0.1, operation=READ, permissionType=ALLOW" in shown
    return chosen


def test_users_are_made_and_described(tool):
    made(tool, f"tools-{uuid.uuid4().hex[:8]}")


@pytest.mark.soak
def test_users_are_removed(tool):
    who = made(tool, f"tools-{uuid.uuid4().hex[:8]}")
    tool(CONFIGS, "--alter", *who, "--delete-config", "SCRAM-SHA-256")
    assert "iterations" not in tool(CONFIGS, "--describe", *who)


def made(tool, name: str) -> tuple[str, ...]:
    who = ("--entity-type", "users", "--entity-name", name)
    tool(CONFIGS, "--alter", *who, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=abc]")
    assert "SCRAM-SHA-256=iterations=8192" in tool(CONFIGS, "--describe", *who)
    return who
