"""Signatures of webhooks in: known vectors, every preset by its own rules, and what must not pass."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.hooks.presets import PRESETS, STANDARD
from headwater.edges.hooks.signatures import Incomplete, NotGenuine, Style, sign, text_at, verify

NOW = 1_700_000_000
BODY = json.dumps({"id": "evt_1", "event_id": "Ev1", "total": 12}).encode()


def signed(
    style: Style, secret: str = "s3cret", at: int = NOW, body: bytes = BODY
) -> dict[str, str]:
    headers = {style.header: sign(style, secret, "msg_1", at, body)}
    if style.timestamp_header:
        headers[style.timestamp_header] = str(at)
    if style.id_header:
        headers[style.id_header] = "msg_1"
    return headers


def test_githubs_own_example_is_verified():
    # From GitHub's page on validating webhook deliveries.
    headers = {
        "x-hub-signature-256": "sha256="
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "x-github-delivery": "72d3162e",
    }
    secret = "It's a Secret to Everybody"
    assert verify(PRESETS["github"], [secret], headers, b"Hello, World!", NOW).id == "72d3162e"


def test_the_example_of_standard_webhooks_is_verified():
    # From the test vectors of the Standard Webhooks libraries.
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    found = verify(STANDARD, [secret], headers, b'{"test": 2432232314}', 1614265330)
    assert found.id == "msg_p5jXN8AQM9LWM0D4loKWxJek"


def test_slacks_signature_is_over_version_time_and_body():
    said = hmac.new(b"s3cret", b"v0:%d:" % NOW + BODY, hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={said}", "x-slack-request-timestamp": str(NOW)}
    assert verify(PRESETS["slack"], ["s3cret"], headers, BODY, NOW).id == "Ev1"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_what_it_signs_and_nothing_else(name: str):
    style = PRESETS[name]
    assert verify(style, ["s3cret"], signed(style), BODY, NOW)
    with pytest.raises(NotGenuine, match="is not of this body"):
        verify(style, ["another"], signed(style), BODY, NOW)
    with pytest.raises(NotGenuine, match="there is no header"):
        verify(style, ["s3cret"], {}, BODY, NOW)
    if style.algorithm != "token":
        with pytest.raises(NotGenuine, match="is not of this body"):
            verify(style, ["s3cret"], signed(style), BODY + b" ", NOW)


@pytest.mark.parametrize("name", [name for name, style in PRESETS.items() if style.has_time])
def test_an_old_request_is_not_taken_again_and_its_time_cannot_be_changed(name: str):
    style = PRESETS[name]
    old = signed(style, at=NOW - 301)
    with pytest.raises(NotGenuine, match="301 s from now"):
        verify(style, ["s3cret"], old, BODY, NOW)
    with pytest.raises(NotGenuine, match="from now"):
        verify(style, ["s3cret"], signed(style, at=NOW + 400), BODY, NOW)
    changed = {key: value.replace(str(NOW - 301), str(NOW)) for key, value in old.items()}
    with pytest.raises(NotGenuine, match="is not of this body"):
        verify(style, ["s3cret"], changed, BODY, NOW)


def test_the_id_of_standard_webhooks_is_part_of_what_is_signed():
    headers = {**signed(STANDARD), "webhook-id": "msg_2"}
    with pytest.raises(NotGenuine):
        verify(STANDARD, ["s3cret"], headers, BODY, NOW)


def test_both_secrets_count_while_one_is_being_replaced():
    style = PRESETS["stripe"]
    headers = signed(style, "old")
    assert verify(style, ["new", "old"], headers, BODY, NOW).id == "evt_1"
    # Stripe itself signs with both for a while.
    both = f"{headers[style.header]},v1={sign(style, 'new', '', NOW, BODY).split('v1=')[1]},v0=junk"
    assert verify(style, ["new"], {style.header: both}, BODY, NOW).id == "evt_1"


def test_a_delivery_without_its_id_is_incomplete_where_the_style_has_one():
    style = PRESETS["stripe"]
    with pytest.raises(Incomplete, match="the field id of the body"):
        verify(style, ["s3cret"], signed(style, body=b"[]"), b"[]", NOW)


def test_without_an_id_only_a_signed_time_tells_deliveries_apart():
    timed = replace(PRESETS["plain"], signed="{timestamp}.{body}", timestamp_header="x-time")
    first = verify(timed, ["s3cret"], signed(timed), BODY, NOW)
    again = verify(timed, ["s3cret"], signed(timed), BODY, NOW)
    later = verify(timed, ["s3cret"], signed(timed, at=NOW + 1), BODY, NOW)
    assert first.id == again.id != later.id
    assert verify(PRESETS["plain"], ["s3cret"], signed(PRESETS["plain"]), BODY, NOW).id is None


def test_the_same_delivery_is_known_however_its_signature_is_spelt():
    style = PRESETS["slack"]
    headers = signed(style, body=b"command=/deploy")
    first = verify(style, ["s3cret"], headers, b"command=/deploy", NOW).id
    hexes = headers[style.header].removeprefix("v0=")
    for spelt in (hexes.upper(), f"{hexes[:2]} {hexes[2:]}"):
        again = {**headers, style.header: f"v0={spelt}"}
        assert verify(style, ["s3cret"], again, b"command=/deploy", NOW).id == first


@pytest.mark.parametrize("secret", ["whsec_", "whsec_=", "whsec_===="])
def test_nobody_signs_with_nothing(secret: str):
    for style in PRESETS.values():
        for key in ("", secret):
            with pytest.raises(NotGenuine):
                verify(style, ["whsec_"], signed(style, key), BODY, NOW)


def test_a_field_that_is_no_text_is_none():
    assert text_at(b'{"id": "\\ud800"}', "id") is None
    assert text_at(b'{"id": ' + b"[" * 100_000, "id") is None


@given(
    name=st.sampled_from(sorted(PRESETS)),
    said=st.text(max_size=80),
    time=st.text(max_size=20),
    body=st.binary(max_size=40),
)
def test_anything_is_genuine_or_an_error_of_ours(name: str, said: str, time: str, body: bytes):
    style = PRESETS[name]
    headers = {style.header: said, style.timestamp_header or "-": time, "webhook-id": "x"}
    with pytest.raises((NotGenuine, Incomplete)):
        verify(style, ["a secret that nobody guesses"], headers, body, NOW)
