"""Signing in by the authorization code flow, against a real issuer that is told to lie."""

from __future__ import annotations

import time
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headwater.oidc import web
from headwater.oidc.claims import Rules
from headwater.oidc.code_flow import CODE_CHARACTERS_MAX, Client, CodeFlow
from headwater.oidc.errors import BadIssuer, IssuerUnreachable, TokenRefused
from headwater.testing.clock import ManualClock
from headwater.testing.issuer import Issuer

BACK = "http://127.0.0.1:1/login/callback"


def flow(idp: Issuer, secret: str | None = "shops-Secret", **rules: Any) -> CodeFlow:
    client = Client("shop", BACK, "openid", lambda: secret)
    return CodeFlow(Rules(idp.url, ("shop",), **rules), "", client)


def browse(url: str) -> dict[str, str]:
    """What a browser brings back that goes where it is sent."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        back = connection.getresponse().headers["Location"]
    finally:
        connection.close()
    assert back.startswith(BACK)
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


async def test_a_browser_that_comes_back_is_known_with_its_groups(idp):
    idp.groups = ["ops"]
    made = flow(idp)
    where, begun = await made.begin()
    asked = parse_qs(urlsplit(where).query)
    assert asked["code_challenge_method"] == ["S256"] and begun.verifier not in where
    assert asked["redirect_uri"] == [BACK] and asked["response_type"] == ["code"]
    back = browse(where)
    assert back["state"] == begun.state
    found = await made.finish(back["code"], begun)
    assert (found.principal, found.groups) == ("ann", ("ops",))
    with pytest.raises(TokenRefused, match="invalid_grant"):
        await made.finish(back["code"], begun)


async def test_a_client_without_a_secret_has_pkce_alone(idp):
    idp.clients["shop"] = ""
    made = flow(idp, None)
    where, begun = await made.begin()
    assert (await made.finish(browse(where)["code"], begun)).principal == "ann"


async def test_a_stolen_code_is_worth_nothing_without_the_verifier(idp):
    made = flow(idp)
    where, begun = await made.begin()
    code = browse(where)["code"]
    with pytest.raises(TokenRefused, match="invalid_grant"):
        await made.finish(code, replace(begun, verifier="x" * 43))


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "nonce": ({"nonce": "of another"}, "nonce is not ours"),
    "no nonce": ({"nonce": None}, "nonce is not ours"),
    "a number for a nonce": ({"nonce": 7}, "nonce is not ours"),
    "audience": ({"aud": "headwater"}, "meant for"),
    "issuer": ({"iss": "https://other.example"}, "of issuer"),
    "expired": ({"exp": time.time() - 100}, "expired"),
    "no end": ({"exp": None}, "no exp"),
    "given to another": ({"azp": "billing"}, "another client"),
    "nobody": ({"sub": None}, "says nobody"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_an_issuer_that_says_something_else_signs_nobody_in(idp, name):
    idp.of_id, reason = WRONG[name]
    made = flow(idp)
    where, begun = await made.begin()
    with pytest.raises(TokenRefused, match=reason):
        await made.finish(browse(where)["code"], begun)


async def test_codes_of_any_length_are_not_sent_on(idp):
    made = flow(idp)
    _, begun = await made.begin()
    for code in ("", "x" * (CODE_CHARACTERS_MAX + 1)):
        with pytest.raises(TokenRefused, match="without a code"):
            await made.finish(code, begun)
    assert "/token" not in idp.asked


async def test_a_wrong_secret_and_an_issuer_that_is_away(idp):
    made = flow(idp, "wrong")
    where, begun = await made.begin()
    with pytest.raises(TokenRefused, match="invalid_client"):
        await made.finish(browse(where)["code"], begun)
    idp.failing = True
    with pytest.raises(IssuerUnreachable, match="503"):
        await made.finish("code", begun)


async def test_the_issuer_is_asked_once_where_its_endpoints_are(idp):
    made = flow(idp)
    for _ in range(5):
        await made.begin()
    assert idp.asked[web.DISCOVERY] == 1
    with pytest.raises(BadIssuer):
        flow(replace(idp, url="http://login.example"))


async def test_an_issuer_that_is_away_is_not_asked_for_each_stranger(idp):
    clock = ManualClock()
    made = CodeFlow(
        Rules(f"{idp.url}/elsewhere", ("shop",)),
        "",
        Client("shop", BACK, "openid", lambda: None),
        clock.monotonic,
    )
    for _ in range(5):
        with pytest.raises(IssuerUnreachable, match="404"):
            await made.begin()
    asked = f"/elsewhere{web.DISCOVERY}"
    assert idp.asked[asked] == 1
    clock.advance(10_000)
    with pytest.raises(IssuerUnreachable):
        await made.begin()
    assert idp.asked[asked] == 2


@pytest.mark.parametrize("where", ["http://login.example/authorize", None])
async def test_nor_is_one_whose_endpoints_cannot_be_used(
    idp: Issuer, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {**idp.discovery(), "authorization_endpoint": where}
    monkeypatch.setattr(Issuer, "discovery", lambda _: said)
    made = flow(idp)
    for _ in range(3):
        with pytest.raises(IssuerUnreachable, match="authorization_endpoint"):
            await made.begin()
    assert idp.asked[web.DISCOVERY] == 1
