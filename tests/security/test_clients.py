"""Other people's clients, through every listener and mechanism, on both servers."""

from __future__ import annotations

import ssl
import subprocess
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.compat.waiting import until
from tests.security.conftest import PASSWORD
from tests.security.servers import PLAIN_PASSWORD, PLAIN_USER, Secured

LOGINS = [
    (listener, mechanism)
    for listener in ("SASL_PLAINTEXT", "SASL_SSL")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
]
WAYS = [*LOGINS, ("SSL", None), ("MTLS", None)]


def librdkafka(server: Secured, listener: str, mechanism: str | None, user: str = "") -> Any:
    config: dict[str, Any] = {
        "bootstrap.servers": server.listeners[listener],
        "security.protocol": "SSL" if listener == "MTLS" else listener,
        "log_level": 0,
    }
    if mechanism is not None:
        plain = mechanism == "PLAIN"
        config["sasl.mechanism"] = mechanism
        config["sasl.username"] = PLAIN_USER if plain else user
        config["sasl.password"] = PLAIN_PASSWORD if plain else PASSWORD
    if listener != "SASL_PLAINTEXT":
        config["ssl.ca.location"] = str(server.certificates.authority.certificate)
    if listener == "MTLS":
        config["ssl.certificate.location"] = str(server.certificates.client.certificate)
        config["ssl.key.location"] = str(server.certificates.client.key)
    return config


def principal(listener: str, mechanism: str | None, user: str) -> str:
    if listener == "MTLS":
        return "User:CN=ann,OU=dev,O=shop,C=CH"
    if listener == "SSL":
        return "User:ANONYMOUS"
    return f"User:{PLAIN_USER if mechanism == 'PLAIN' else user}"


def allow_all(server: Secured, who: str, prefix: str) -> None:
    with server.admin() as wire:
        creations = [
            {
                "resource_type": kind,
                "resource_name": prefix,
                "resource_pattern_type": 4,
                "principal": who,
                "host": "127.0.0.1",
                "operation": 2,
                "permission_type": 3,
            }
            for kind in (2, 3, 5)
        ]
        for row in wire.ask("create_acls", 3, creations=creations).results:
            assert row.error_code == 0


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_confluent_produces_and_consumes(secured, listener, mechanism, user):
    topic = f"clients-{uuid.uuid4().hex[:8]}"
    allow_all(secured, principal(listener, mechanism, user), topic)
    config = librdkafka(secured, listener, mechanism, user)
    producer = Producer(config)
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        assert message.value() == b"hello"
    finally:
        consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), [LOGINS[1], LOGINS[5], ("MTLS", None)])
def test_kafka_python_produces(secured, listener, mechanism, user):
    from kafka import KafkaProducer

    topic = f"clients-{uuid.uuid4().hex[:8]}"
    allow_all(secured, principal(listener, mechanism, user), topic)
    config: dict[str, Any] = {
        "bootstrap_servers": secured.listeners[listener],
        "security_protocol": "SSL" if listener == "MTLS" else listener,
    }
    if mechanism:
        config |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": PASSWORD,
        }
    if listener != "SASL_PLAINTEXT":
        config["ssl_cafile"] = str(secured.certificates.authority.certificate)
    if listener == "MTLS":
        config["ssl_certfile"] = str(secured.certificates.client.certificate)
        config["ssl_keyfile"] = str(secured.certificates.client.key)
    producer = KafkaProducer(**config)
    try:
        assert producer.send(topic, b"hello").get(timeout=60).offset == 0
    finally:
        producer.close()


@pytest.mark.parametrize(("listener", "mechanism"), [LOGINS[2], LOGINS[4]])
async def test_aiokafka_produces(secured, listener, mechanism, user):
    from aiokafka import AIOKafkaProducer

    topic = f"clients-{uuid.uuid4().hex[:8]}"
    allow_all(secured, principal(listener, mechanism, user), topic)
    certificate = str(secured.certificates.authority.certificate)
    context = ssl.create_default_context(cafile=certificate) if "SSL" in listener else None
    producer = AIOKafkaProducer(
        bootstrap_servers=secured.listeners[listener],
        security_protocol=listener,
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=PASSWORD,
        ssl_context=context,
    )
    await producer.start()
    try:
        assert (await producer.send_and_wait(topic, b"hello")).offset == 0
    finally:
        await producer.stop()


def test_kcat_lists_what_the_user_may_see(secured, tmp_path):
    # PLAIN: the old librdkafka in Debian's kcat sends its nonce twice, which a server that heeds
    # CVE-2024-56128 refuses, Apache Kafka 4 as well as headwater.
    topic = f"clients-{uuid.uuid4().hex[:8]}"
    allow_all(secured, f"User:{PLAIN_USER}", topic)
    config = librdkafka(secured, "SASL_SSL", "PLAIN")
    Producer(config).list_topics(topic, timeout=60)
    file = tmp_path / "kcat.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))

    def listed() -> str:
        done = subprocess.run(
            ["kcat", "-F", str(file), "-L"], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout if f'topic "{topic}"' in done.stdout else ""

    # Kafka answers who asks for a topic by its name a moment before it lists it.
    shown = until(listed, f"{topic} in kcat's list")
    assert "__consumer_offsets" not in shown


def failure(config: Any) -> KafkaError:
    """Why a client cannot connect, as librdkafka says it."""
    errors: list[KafkaError] = []
    client = AdminClient({**config, "error_cb": errors.append})

    def told() -> bool:
        client.poll(0.1)
        return any(e.code() not in (KafkaError._ALL_BROKERS_DOWN,) for e in errors)

    until(told, "an error")
    return next(e for e in errors if e.code() != KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.parametrize(("listener", "mechanism"), [LOGINS[0], LOGINS[1], LOGINS[5]])
def test_a_wrong_password_is_an_authentication_error(secured, listener, mechanism, user):
    config = librdkafka(secured, listener, mechanism, user)
    error = failure({**config, "sasl.password": "wrong"})
    assert error.code() == KafkaError._AUTHENTICATION, error


def test_a_certificate_of_a_stranger_is_refused_by_the_client(secured):
    config = librdkafka(secured, "SSL", None)
    other = str(secured.certificates.strangers_authority.certificate)
    error = failure({**config, "ssl.ca.location": other})
    assert "certificate verify failed" in error.str()


@pytest.mark.parametrize("who", ["none", "expired", "stranger"])
def test_a_client_certificate_that_will_not_do_is_refused(secured, who):
    config = librdkafka(secured, "MTLS", None)
    if who == "none":
        del config["ssl.certificate.location"], config["ssl.key.location"]
    else:
        shown = getattr(secured.certificates, who)
        config["ssl.certificate.location"] = str(shown.certificate)
        config["ssl.key.location"] = str(shown.key)
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=2)


@pytest.mark.parametrize(("listener", "protocol"), [("SSL", "PLAINTEXT"), ("PLAINTEXT", "SSL")])
def test_plain_and_tls_do_not_meet(secured, listener, protocol):
    config = {"bootstrap.servers": secured.listeners[listener], "security.protocol": protocol}
    with pytest.raises(KafkaException):
        AdminClient({**config, "log_level": 0}).list_topics(timeout=2)
    with secured.admin() as wire:
        assert wire.ask("metadata", 9, topics=[]).brokers


def test_confluents_admin_makes_finds_and_removes_acls(secured):
    client = AdminClient({"bootstrap.servers": secured.bootstrap})
    topic = f"clients-{uuid.uuid4().hex[:8]}"
    made = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.PREFIXED,
        "User:x",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    client.create_acls([made])[made].result(60)
    everything = AclBindingFilter(
        ResourceType.ANY,
        f"{topic}-more",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    until(lambda: client.describe_acls(everything).result(60) == [made], "the ACL to be seen")
    assert client.delete_acls([everything])[everything].result(60) == [made]
    until(lambda: client.describe_acls(everything).result(60) == [], "the ACL to be gone")


def test_a_consumer_without_permission_is_told_so(secured, user):
    topic = f"clients-{uuid.uuid4().hex[:8]}"
    with secured.admin() as wire:
        asked = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        wire.ask("create_topics", 7, topics=[asked], timeout=9000)
    config = librdkafka(secured, "SASL_PLAINTEXT", "SCRAM-SHA-256", user)
    consumer = Consumer({**config, "group.id": topic})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None
        assert message.error().name() in (
            "GROUP_AUTHORIZATION_FAILED",
            "TOPIC_AUTHORIZATION_FAILED",
        )
    finally:
        consumer.close()
