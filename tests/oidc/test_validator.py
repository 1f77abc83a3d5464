"""Tokens of a real issuer, good and bad, judged by the one validator; its keys change, fail and lie."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, RSAKey

from headwater.oidc import keys as keys_module
from headwater.oidc import web
from headwater.oidc.claims import LIFETIME_S_MAX, Rules
from headwater.oidc.errors import BadIssuer, IssuerUnreachable, TokenRefused
from headwater.oidc.keys import Keys
from headwater.oidc.validator import Validator
from headwater.testing.clock import ManualClock
from headwater.testing.issuer import Issuer
from tests.oidc.bad_tokens import BAD


def validator(idp: Issuer, clock: ManualClock | None = None, **rules: object) -> Validator:
    now = {} if clock is None else {"clock": clock.monotonic}
    made = Rules(idp.url, ("headwater",), **rules)  # type: ignore[arg-type]
    return Validator(made, Keys(idp.url, idp.jwks_url, **now))


async def test_a_good_token_says_who_it_is(idp):
    token = idp.token("ann", groups=["ops", "dev"], scope="read write")
    found = await validator(idp).identity(token)
    assert (found.principal, found.groups, found.scopes) == (
        "ann",
        ("ops", "dev"),
        ("read", "write"),
    )
    assert 0 < found.lifetime_s <= idp.lifetime_s
    assert "claims" not in repr(found), "a log line must not hold all that is known of a person"


async def test_claims_are_named_by_the_rules_also_inside_others(idp):
    token = idp.token(preferred_username="Ann A.", realm_access={"roles": ["admin"]}, groups=None)
    judged = validator(idp, principal_claim="preferred_username", groups_claim="realm_access.roles")
    found = await judged.identity(token)
    assert (found.principal, found.groups) == ("Ann A.", ("admin",))


async def test_the_keys_are_found_by_discovery(idp):
    rules = Rules(idp.url, ("headwater",))
    assert (await Validator(rules, Keys(idp.url)).identity(idp.token())).principal == "ann"
    idp.rotate()
    assert (await Validator(rules, Keys(idp.url)).identity(idp.token("eve"))).principal == "eve"


async def test_discovery_by_another_name_is_not_believed(idp):
    keys = Keys(idp.url.replace("127.0.0.1", "localhost"))
    with pytest.raises(IssuerUnreachable, match="speaks for"):
        await keys.find(None, "RS256")


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_is_refused(idp, name):
    token, reason = BAD[name]
    with pytest.raises(TokenRefused, match=reason):
        await validator(idp).identity(token(idp))


async def test_a_clock_that_is_a_little_off_is_forgiven(idp):
    judged = validator(idp)
    late = await judged.identity(idp.token(exp=time.time() - 10))
    assert late.lifetime_s > 0
    assert await judged.identity(idp.token(nbf=time.time() + 10))


async def test_a_key_that_is_rotated_in_is_found_and_one_taken_away_is_gone(idp):
    clock = ManualClock()
    judged = validator(idp, clock)
    old = idp.token()
    await judged.identity(old)
    idp.rotate()
    assert (await judged.identity(idp.token("eve"))).principal == "eve"
    assert await judged.identity(old), "still listed"
    idp.retire()
    assert await judged.identity(old), "kept until the keys are fetched again"
    clock.advance(int(keys_module.REFRESH_S * 1000))
    with pytest.raises(TokenRefused, match="has no key"):
        await judged.identity(old)
    assert await judged.identity(idp.token())


async def test_invented_kids_do_not_drive_the_issuer(idp):
    clock = ManualClock()
    judged = validator(idp, clock)
    strange = idp.signed(idp.claims(), ECKey.generate_key("P-256", {"kid": "invented"}))
    for _ in range(20):
        with pytest.raises(TokenRefused, match="has no key 'invented'"):
            await judged.identity(strange)
    assert idp.asked["/keys"] == 2
    clock.advance(int(keys_module.UNKNOWN_S * 1000))
    with pytest.raises(TokenRefused):
        await judged.identity(strange)
    assert idp.asked["/keys"] == 3
    assert await judged.identity(idp.token())


async def test_many_at_once_ask_the_issuer_once(idp):
    judged = validator(idp)
    found = await asyncio.gather(*(judged.identity(idp.token(f"u{n}")) for n in range(20)))
    assert {each.principal for each in found} == {f"u{n}" for n in range(20)}
    assert idp.asked["/keys"] == 1


async def test_keys_that_cannot_be_had_are_the_issuers_fault_and_asked_for_again_later(idp):
    clock = ManualClock()
    judged = validator(idp, clock)
    idp.failing = True
    for _ in range(3):
        with pytest.raises(IssuerUnreachable, match="answered 503"):
            await judged.identity(idp.token())
    assert idp.asked["/keys"] == 1
    idp.failing = False
    clock.advance(int(keys_module.RETRY_S * 1000))
    assert await judged.identity(idp.token())


async def test_known_keys_serve_while_the_issuer_is_away(idp):
    clock = ManualClock()
    judged = validator(idp, clock)
    await judged.identity(idp.token())
    idp.failing = True
    clock.advance(int(keys_module.REFRESH_S * 1000))
    assert await judged.identity(idp.token())


async def test_huge_and_slow_keys_are_cut_off(idp):
    idp.padding = web.BYTES_MAX
    with pytest.raises(IssuerUnreachable, match="more than"):
        await validator(idp).identity(idp.token())
    idp.padding, idp.pause_s = web.BYTES_MAX // 2, 0.05  # hours, if nobody cut it off
    with pytest.raises(IssuerUnreachable, match=r"longer than 0\.3 s"):
        await asyncio.to_thread(web.fetch, idp.jwks_url, seconds=0.3)


async def test_shared_secrets_and_short_keys_of_an_issuer_do_not_count(idp, tmp_path):
    with pytest.warns(SecurityWarning):
        short = RSAKey.generate_key(1024, {"kid": "short"}).as_dict(private=False)
    secret = OctKey.generate_key(256, {"kid": "secret"}).as_dict()
    sealing = {**idp.keys[0].as_dict(private=False), "use": "enc"}
    listed = tmp_path / "keys.json"
    listed.write_text(json.dumps({"keys": [short, secret, sealing, "nonsense", {"kty": "RSA"}]}))
    keys = Keys(idp.url, listed.as_uri())
    for kid in ("short", "secret", idp.keys[0].kid):
        with pytest.raises(TokenRefused, match="has no key"):
            await keys.find(kid, "RS256")


ODD = {
    "a curve of others": {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA"},
    "a curve that nobody knows": {"kty": "OKP", "crv": "Ed999", "x": "AA"},
    "a curve that is a list": {"kty": "EC", "crv": ["P-256"], "x": "AA", "y": "AA"},
    "a point beside its curve": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    "a key of noise": {"kty": "RSA", "n": "ä" * 400, "e": "AQAB"},
    "a short key that looks long": {"kty": "RSA", "n": "A" * 350 + "gQ" * 20, "e": "AQAB"},
    "a key without anything": {"kty": "OKP"},
}


async def test_an_odd_key_of_the_issuer_is_left_out_and_named_once(idp, caplog):
    idp.more_keys = [{**odd, "kid": name} for name, odd in ODD.items()]
    clock = ManualClock()
    judged = validator(idp, clock)
    for _ in range(3):
        assert await judged.identity(idp.token())
        clock.advance(int(keys_module.REFRESH_S * 1000))
    assert idp.asked["/keys"] == 3
    for name in ODD:
        named = [each for each in caplog.messages if f"{name!r} is left out" in each]
        assert len(named) == 1, (name, caplog.messages)


async def test_a_failure_that_nobody_foresaw_is_one_like_any_other(idp):
    clock = ManualClock()
    keys = Keys(idp.url, "file:///no\0file", clock=clock.monotonic)
    for _ in range(3):
        with pytest.raises(IssuerUnreachable, match="null byte"):
            await keys.find(None, "RS256")
    assert keys.fetches == 1
    clock.advance(int(keys_module.RETRY_S * 1000))
    with pytest.raises(IssuerUnreachable):
        await keys.find(None, "RS256")
    assert keys.fetches == 2


async def test_who_goes_away_while_keys_are_fetched_neither_stops_nor_repeats_the_fetch(idp):
    judged = validator(idp)
    with idp.answering:
        impatient = asyncio.create_task(judged.identity(idp.token()))
        async with asyncio.timeout(30):
            while not idp.asked.get("/keys"):
                await asyncio.sleep(0.01)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        patient = asyncio.create_task(judged.identity(idp.token("eve")))
        await asyncio.sleep(0)
    assert (await patient).principal == "eve"
    assert idp.asked["/keys"] == 1


async def test_a_token_without_a_sensible_end_opens_a_session_with_one(idp):
    found = await validator(idp).identity(idp.token(exp=1e308))
    assert found.lifetime_s == LIFETIME_S_MAX


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "ftp://127.0.0.1/", "keys.json", ""])
def test_keys_over_plain_http_are_only_for_loopback(url):
    with pytest.raises(BadIssuer):
        Keys(url or "", url)


def test_an_issuer_without_an_audience_is_no_rule(idp):
    with pytest.raises(BadIssuer, match="issuer and an audience"):
        Validator(Rules(idp.url, ()), Keys(idp.url))


async def test_who_has_keys_does_not_wait_long_for_an_issuer_that_hangs(idp):
    clock = ManualClock()
    judged = validator(idp, clock)
    await judged.identity(idp.token())
    clock.advance(int(keys_module.REFRESH_S * 1000))
    with idp.answering:
        first = asyncio.create_task(judged.identity(idp.token()))
        async with asyncio.timeout(30):
            while idp.asked["/keys"] < 2:
                await asyncio.sleep(0.01)
        clock.advance(int(keys_module.PATIENCE_S * 1000))
        assert await judged.identity(idp.token("eve")), "the first has waited for all"
        assert not first.done() or await first
    assert await first
    assert idp.asked["/keys"] == 2
