"""Our own clients log in by tokens that they get from a real issuer, and renew them on the connection."""

from __future__ import annotations

import pytest

from headwater import testing
from headwater.client.cluster import Cluster
from headwater.client.connection import METADATA, Connection
from headwater.client.errors import BadOption, LoginRefused
from headwater.client.log import Log
from headwater.client.options import Options, addresses, librdkafka_settings
from headwater.oidc.errors import IssuerUnreachable
from headwater.oidc.grants import Grant, Tokens
from headwater.testing.issuer import issuer


@pytest.fixture(scope="module")
def idp():
    with issuer() as found:
        yield found


def settings(idp) -> dict[str, object]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": idp.url,
        "sasl.oauthbearer.expected.audience": "headwater",
        "connection.failed.authentication.delay.ms": "10",
    }


@pytest.fixture(scope="module")
def kafka(idp):
    with testing.broker(settings=settings(idp), listen=None) as found:
        yield found


def client(kafka, idp, **more: str) -> dict[str, str]:
    named = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": idp.token_url,
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": idp.clients["shop"],
        "sasl.oauthbearer.scope": "log",
        **more,
    }
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()


def test_the_raw_client_and_librdkafkas_take_the_same_settings(kafka, idp):
    settings = client(kafka, idp)
    cluster = Cluster(settings)
    try:
        assert cluster.metadata(["orders"]) is not None
    finally:
        cluster.close()
    log = Log(kafka.bootstrap, client=librdkafka_settings(settings))
    producer = log.new_producer()
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0


def test_a_connection_renews_its_login_before_it_ends(idp):
    clock = testing.ManualClock()
    with testing.broker(settings=settings(idp), listen=None, clock=clock) as kafka:
        (where,) = addresses(kafka.bootstrap)
        connection = Connection(where, client(kafka, idp), None, 30)
        try:
            clock.advance(idp.lifetime_s * 800)
            connection._renew_at -= idp.lifetime_s  # our own clock stands where the broker's does
            connection.ask(METADATA, {"topics": []})
            clock.advance(idp.lifetime_s * 800)
            assert connection.ask(METADATA, {"topics": []}).brokers, "the first login is over"
        finally:
            connection.close()


def test_a_wrong_secret_and_a_token_for_others_are_refused_in_words(kafka, idp):
    (where,) = addresses(kafka.bootstrap)
    wrong = client(kafka, idp, **{"sasl.oauthbearer.client.secret": "wrong"})
    with pytest.raises(LoginRefused, match=r"no token: invalid_client"):
        Connection(where, wrong, None, 30)
    idp.audience = "billing"
    try:
        other = client(kafka, idp, **{"sasl.oauthbearer.scope": "other"})
        with pytest.raises(LoginRefused, match="invalid_token"):
            Connection(where, other, None, 30)
    finally:
        idp.audience = "headwater"


def test_what_is_missing_is_named(kafka, idp):
    with pytest.raises(BadOption) as refused:
        client(kafka, idp, **{"sasl.oauthbearer.client.id": ""})
    assert "sasl.oauthbearer.client.id" in (refused.value.hint or "")


def test_a_token_is_asked_for_again_when_most_of_its_time_is_over(idp):
    clock = testing.ManualClock()
    tokens = Tokens(Grant(idp.token_url, "shop", idp.clients["shop"]), clock.monotonic)
    before = idp.asked.get("/token", 0)
    tokens.now()
    tokens.now()
    assert idp.asked["/token"] == before + 1
    clock.advance(int(idp.lifetime_s * 810))
    tokens.now()
    assert idp.asked["/token"] == before + 2


def test_an_issuer_that_is_away_is_no_refusal():
    with pytest.raises(IssuerUnreachable, match="no answer"):
        Tokens(Grant("http://127.0.0.1:9/token", "shop", "x")).now()
    assert "x'" not in repr(Grant("http://127.0.0.1:9/token", "shop", "x"))
