"""Our own clients log in by tokens that they get from a real issuer, and renew them on the connection."""

from __future__ import annotations

import pytest

from headwater import testing
from headwater.client import security
from headwater.client.cluster import Cluster
from headwater.client.connection import METADATA, Connection
from headwater.client.errors import BadOption, LoginRefused
from headwater.client.log import Log
from headwater.client.options import Options, addresses, librdkafka_settings
from headwater.oidc.errors import IssuerUnreachable, TokenRefused
from headwater.oidc.grants import (
    LIFETIME_S,
    LIFETIME_S_MAX,
    RETRY_S_MAX,
    Grant,
    Tokens,
    lifetime,
)
from headwater.testing.issuer import issuer

SECRET = "shops-Secret"


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


@pytest.fixture
def away(idp):
    """Away when asked to be, and back afterwards."""
    yield idp
    idp.failing, idp.clients["shop"], idp.expires_in = False, SECRET, None


def own_tokens(idp, clock: testing.ManualClock) -> Tokens:
    return Tokens(Grant(idp.token_url, "shop", SECRET), clock.monotonic)


@pytest.mark.parametrize("trouble", ["away", "refusing"])
def test_the_last_token_serves_until_its_end_while_there_is_no_new_one(away, trouble):
    clock = testing.ManualClock()
    tokens = own_tokens(away, clock)
    first = tokens.now()
    away.failing = trouble == "away"
    away.clients["shop"] = "changed"
    clock.advance(away.lifetime_s * 810)
    before = away.asked["/token"]
    assert [tokens.now() for _ in range(20)] == [first] * 20
    assert away.asked["/token"] == before + 1, "then it is left alone for a while"
    for _ in range(40):
        clock.advance(1_000)
        assert tokens.now() == first
    assert before + 4 < away.asked["/token"] < before + 12, "ever more seldom, but again and again"
    clock.advance(away.lifetime_s * 200)
    with pytest.raises((IssuerUnreachable, TokenRefused)):
        tokens.now()
    away.failing, away.clients["shop"] = False, SECRET
    clock.advance(int(RETRY_S_MAX * 1000))
    before = away.asked["/token"]
    assert tokens.now() and away.asked["/token"] == before + 1


def test_an_issuer_that_is_away_is_not_asked_by_each_who_has_no_token(away):
    clock = testing.ManualClock()
    tokens = own_tokens(away, clock)
    away.failing = True
    before = away.asked["/token"]
    for _ in range(5):
        with pytest.raises(IssuerUnreachable, match="503"):
            tokens.now()
    assert away.asked["/token"] == before + 1
    away.failing = False
    clock.advance(int(RETRY_S_MAX * 1000))
    assert tokens.now()


@pytest.mark.parametrize(
    ("said", "lifetime_s"),
    [
        (300, 300.0),
        ("300", 300.0),
        *((odd, LIFETIME_S) for odd in (float("nan"), float("-inf"), -1, 0, "soon", [], None)),
        (10**400, LIFETIME_S),
        (float("inf"), LIFETIME_S_MAX),
        (1e308, LIFETIME_S_MAX),
    ],
)
def test_a_lifetime_is_one_whatever_the_issuer_says(said, lifetime_s):
    assert lifetime(said) == lifetime_s


@pytest.mark.parametrize("said", [float("nan"), float("inf"), -1, "soon", 10**400])
def test_tokens_are_renewed_whatever_the_issuer_says_of_their_time(away, said):
    clock = testing.ManualClock()
    tokens = own_tokens(away, clock)
    away.expires_in = said
    before = away.asked["/token"]
    tokens.now()
    tokens.now()
    assert away.asked["/token"] == before + 1
    clock.advance(int(LIFETIME_S_MAX * 1000))
    tokens.now()
    assert away.asked["/token"] == before + 2


@pytest.mark.parametrize("expires_in", [None, 1e-9])
def test_a_connection_goes_on_while_the_issuer_is_away(away, expires_in):
    """Also where our token is over by what the issuer said: the login is not, by what the broker said."""
    away.expires_in = expires_in
    clock = testing.ManualClock()
    with testing.broker(settings=settings(away), listen=None, clock=clock) as kafka:
        (where,) = addresses(kafka.bootstrap)
        scope = {"sasl.oauthbearer.scope": f"log-{expires_in}"}
        connection = Connection(where, client(kafka, away, **scope), None, 30)
        try:
            away.failing = True
            clock.advance(5_000)  # brokers take no two logins within a second
            connection._renew_at -= away.lifetime_s  # as if most of its time were over
            for _ in range(3):
                assert connection.ask(METADATA, {"topics": []}).brokers
        finally:
            connection.close()


def test_a_login_is_not_renewed_more_often_than_brokers_allow():
    assert security.renewal(300) == 240
    assert security.renewal(0.5) == 1


def test_an_issuer_that_is_away_is_no_refusal():
    with pytest.raises(IssuerUnreachable, match="no answer"):
        Tokens(Grant("http://127.0.0.1:9/token", "shop", "x")).now()
    assert "x'" not in repr(Grant("http://127.0.0.1:9/token", "shop", "x"))
