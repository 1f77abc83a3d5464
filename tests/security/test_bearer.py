"""SASL/OAUTHBEARER: tokens of a real issuer open the log, to other people's clients too; bad ones do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from headwater import testing
from headwater.broker.security import bearer
from headwater.broker.security.listeners import BadListener
from headwater.oidc.claims import LIFETIME_S_MAX
from headwater.oidc.errors import TokenRefused
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.issuer import Issuer, issuer
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire, connected


@pytest.fixture(scope="module")
def idp() -> Iterator[Issuer]:
    with issuer() as found:
        yield found


def settings(idp: Issuer, **more: object) -> dict[str, object]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
        "sasl.oauthbearer.expected.issuer": idp.url,
        "sasl.oauthbearer.expected.audience": "headwater",
        "sasl.oauthbearer.jwks.endpoint.url": idp.jwks_url,
        "authorizer.class.name": "acl",
        "super.users": "User:shop;User:ann",
        "connection.failed.authentication.delay.ms": "10",
        **more,
    }


@pytest.fixture(scope="module")
def kafka(idp: Issuer) -> Iterator[EmbeddedBroker]:
    with testing.broker(settings=settings(idp), listen=None) as found:
        yield found


def message(token: str, authzid: str = "") -> bytes:
    return f"n,{'a=' + authzid if authzid else ''},\1auth=Bearer {token}\1\1".encode()


def shown(wire: Wire, token: bytes, version: int = 2):
    assert wire.ask("sasl_handshake", 1, mechanism="OAUTHBEARER").error_code == 0
    return wire.ask("sasl_authenticate", version, auth_bytes=token)


def is_refused(kafka: EmbeddedBroker, token: bytes) -> bool:
    """As RFC 7628 has it: a status, the client's ^A, the end."""
    with connected(kafka.bootstrap) as wire:
        first = shown(wire, token)
        assert (first.error_code, first.auth_bytes) == (0, b'{"status":"invalid_token"}')
        last = wire.ask("sasl_authenticate", 2, auth_bytes=b"\1")
        assert last.error_message == '{"status":"invalid_token"}'
        with pytest.raises(ConnectionClosed):
            wire.receive_bytes()
        return last.error_code is ErrorCode.sasl_authentication_failed


# ---- on the wire ---------------------------------------------------------------------------------


def test_a_good_token_opens_the_connection_for_as_long_as_it_is_good(kafka, idp):
    with connected(kafka.bootstrap) as wire:
        answer = shown(wire, message(idp.token()))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert 0 < answer.session_lifetime.total_seconds() <= idp.lifetime_s
        assert wire.ask("metadata", 9, topics=[]).brokers


def test_a_token_that_ends_in_no_time_of_ours_opens_a_session_that_ends(kafka, idp):
    with connected(kafka.bootstrap) as wire:
        answer = shown(wire, message(idp.token(exp=1e308)))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert answer.session_lifetime.total_seconds() == LIFETIME_S_MAX


BAD = {
    "with an end of 400 digits": lambda idp: message(idp.token(exp=10**400)),
    "expired": lambda idp: message(idp.token(exp=time.time() - 60)),
    "for another": lambda idp: message(idp.token(aud="billing")),
    "of another issuer": lambda idp: message(idp.token(iss="http://127.0.0.1:1")),
    "wrongly signed": lambda idp: message(idp.token()[:-6] + "AAAAAA"),
    "as somebody else": lambda idp: message(idp.token(), authzid="root"),
    "too long": lambda idp: message(idp.token(more="x" * 20_000)),
    "not a token": lambda idp: message("abc"),
    "no message": lambda idp: b"\1",
    "empty": lambda idp: b"",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_is_refused_with_a_status_and_then_for_good(kafka, idp, name):
    assert is_refused(kafka, BAD[name](idp))


def test_a_refused_client_cannot_show_another_token(kafka, idp):
    with connected(kafka.bootstrap) as wire:
        assert shown(wire, message("abc")).auth_bytes
        again = wire.ask("sasl_authenticate", 2, auth_bytes=message(idp.token()))
        assert again.error_code is ErrorCode.sasl_authentication_failed


def test_a_login_ends_with_its_token_and_is_renewed_by_another(idp):
    clock = testing.ManualClock()
    with (
        testing.broker(settings=settings(idp), listen=None, clock=clock) as kafka,
        connected(kafka.bootstrap) as wire,
    ):
        shown(wire, message(idp.token(exp=time.time() + 60)))
        clock.advance(50_000)
        assert wire.ask("metadata", 9, topics=[]).brokers
        assert shown(wire, message(idp.token(exp=time.time() + 60))).error_code == 0
        clock.advance(50_000)
        assert wire.ask("metadata", 9, topics=[]).brokers
        clock.advance(20_000)
        with pytest.raises(ConnectionClosed):
            wire.ask("metadata", 9, topics=[])


def test_nobody_becomes_another_when_renewing(idp):
    clock = testing.ManualClock()
    with (
        testing.broker(settings=settings(idp), listen=None, clock=clock) as kafka,
        connected(kafka.bootstrap) as wire,
    ):
        shown(wire, message(idp.token("ann")))
        clock.advance(5_000)
        answer = shown(wire, message(idp.token("shop")))
        assert answer.error_code is ErrorCode.sasl_authentication_failed


def test_a_shorter_session_of_the_listener_wins(idp):
    own = settings(idp, **{"connections.max.reauth.ms": "7000"})
    with testing.broker(settings=own, listen=None) as kafka, connected(kafka.bootstrap) as wire:
        answer = shown(wire, message(idp.token()))
        assert answer.session_lifetime.total_seconds() == 7


def test_while_the_issuer_is_away_a_client_is_sent_off_and_not_refused():
    with issuer() as idp:
        idp.failing = True
        own = settings(idp, **{"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "0"})
        with testing.broker(settings=own, listen=None) as kafka:
            with connected(kafka.bootstrap) as wire, pytest.raises(ConnectionClosed):
                shown(wire, message(idp.token()))
            idp.failing = False
            with connected(kafka.bootstrap) as wire:
                assert shown(wire, message(idp.token())).auth_bytes == b""


def test_an_odd_key_of_the_issuer_stops_nobody():
    with issuer() as own:
        own.more_keys = [{"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA"}]
        found = testing.broker(settings=settings(own), listen=None)
        with found as kafka, connected(kafka.bootstrap) as wire:
            assert shown(wire, message(own.token())).auth_bytes == b""


# ---- other people's clients ------------------------------------------------------------------------


def librdkafka(kafka: EmbeddedBroker, idp: Issuer, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": idp.clients["shop"],
        "sasl.oauthbearer.token.endpoint.url": idp.token_url,
        "sasl.oauthbearer.scope": "log",
        **more,
    }


def writes_and_reads(client: dict[str, object]) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client)
    admin.poll(0)
    (made,) = admin.create_topics([NewTopic(topic, 1)]).values()
    made.result(30)
    producer = Producer(client)
    producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert until(lambda: consumer.poll(0.2), "the record").value() == b"one"
    finally:
        consumer.close()


def test_confluent_fetches_its_own_token_from_the_issuer(kafka, idp):
    writes_and_reads(librdkafka(kafka, idp))
    assert idp.asked["/token"] >= 3


def test_confluent_with_a_callback_of_its_own(kafka, idp):
    def token(_: str) -> tuple[str, float]:
        return idp.token("ann"), time.time() + idp.lifetime_s

    client = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    writes_and_reads(client)


def test_confluent_renews_its_token_and_goes_on():
    with issuer() as idp:
        idp.lifetime_s = 5
        own = settings(idp, **{"sasl.oauthbearer.clock.skew.seconds": "0"})
        with testing.broker(settings=own, listen=None) as kafka:
            producer = Producer(librdkafka(kafka, idp))

            def written() -> bool:
                producer.produce("renewed", b"x")
                assert producer.flush(30) == 0
                return idp.asked["/token"] >= 3

            until(written, "two renewals", pause=0.2)


def test_confluent_hears_that_a_wrong_audience_is_refused(kafka, idp):
    said: list[KafkaError] = []

    def token(_: str) -> tuple[str, float]:
        return idp.token(aud="billing"), time.time() + 60

    admin = AdminClient(
        {
            "bootstrap.servers": kafka.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": token,
            "error_cb": said.append,
            "log_level": 0,
        }
    )

    def heard() -> bool:
        admin.poll(0.1)
        return any("invalid_token" in each.str() for each in said)

    until(heard, "the refusal")


def test_a_principal_without_an_acl_may_do_nothing(kafka, idp):
    def token(_: str) -> tuple[str, float]:
        return idp.token("mallory"), time.time() + 60

    client = librdkafka(kafka, idp)
    for name in [name for name in client if name.startswith("sasl.oauthbearer.")]:
        del client[name]
    admin = AdminClient({**client, "oauth_cb": token})
    admin.poll(0)
    (made,) = admin.create_topics([NewTopic("mallorys", 1)]).values()
    with pytest.raises(KafkaException) as refused:
        made.result(30)
    assert refused.value.args[0].code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )


def test_kafka_python_with_a_token_provider(kafka, idp):
    class Tokens(KafkaPythonTokens):
        def token(self) -> str:
            return idp.token("ann")

    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    try:
        assert producer.send("kafka-python", b"one").get(30).offset == 0
    finally:
        producer.close()


async def test_aiokafka_with_a_token_provider(kafka, idp):
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return idp.token("ann")

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    await producer.start()
    try:
        async with asyncio.timeout(30):
            assert (await producer.send_and_wait("aiokafka", b"one")).offset == 0
    finally:
        await producer.stop()


# ---- settings, and what they load ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["expected.issuer", "expected.audience"])
def test_issuer_and_audience_must_be_named(idp, name, tmp_path):
    own = {**settings(idp), f"sasl.oauthbearer.{name}": ""}
    refused = pytest.raises(BadListener, match="issuer and an audience")
    with refused, testing.broker(tmp_path, own, listen=None):
        pass


def test_keys_over_plain_http_are_refused_at_the_start(idp, tmp_path):
    own = settings(idp, **{"sasl.oauthbearer.jwks.endpoint.url": "http://issuer.example/keys"})
    refused = pytest.raises(BadListener, match="nobody could trust")
    with refused as caught, testing.broker(tmp_path, own, listen=None):
        pass
    assert "https" in (caught.value.hint or "")


def test_a_listener_may_have_an_issuer_of_its_own(idp):
    prefix = "listener.name.sasl_plaintext."
    named = {
        prefix + name if name.startswith("sasl.oauth") else name: value
        for name, value in settings(idp).items()
    }
    named[prefix + "oauthbearer.sasl.jaas.config"] = "OAuthBearerLoginModule required;"
    with testing.broker(settings=named, listen=None) as kafka, connected(kafka.bootstrap) as wire:
        assert shown(wire, message(idp.token())).auth_bytes == b""


def test_a_broker_without_oauthbearer_loads_nothing_for_it():
    code = (
        "import sys, headwater.broker.broker; print({'joserfc', 'cryptography'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- the message -----------------------------------------------------------------------------------


def test_a_message_gives_its_token_and_whom_it_is_for():
    assert bearer.parse(b"n,,\1auth=Bearer a.b.c\1\1") == ("a.b.c", "")
    more = b"n,a=an=2Cn,\1host=x\1port=9092\1auth=bearer a.b.c\1ext=1=2\1\1"
    assert bearer.parse(more) == ("a.b.c", "an,n")


@pytest.mark.parametrize(
    "data",
    [
        b"n,,\1auth=Bearer a.b.c\1",
        b"y,,\1auth=Bearer a.b.c\1\1",
        b"n,,\1auth=Basic a.b.c\1\1",
        b"n,,\1auth=Bearer a.b.c\1auth=Bearer d.e.f\1\1",
        b"n,,\1auth=Bearer a b\1\1",
        b"n,,\1auth=Bearer a.b.c\1\1trailing",
        b"n,a=\xff,\1auth=Bearer a.b.c\1\1",
        b"n,,auth=Bearer a.b.c",
    ],
)
def test_any_other_message_is_refused(data):
    with pytest.raises(TokenRefused):
        bearer.parse(data)


def test_every_cut_of_a_message_is_refused():
    whole = b"n,,\1auth=Bearer a.b.c\1\1"
    for end in range(len(whole)):
        with pytest.raises(TokenRefused):
            bearer.parse(whole[:end])
