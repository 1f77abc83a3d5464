"""[edges.hooks.NAME]: what may stand there, and every mistake told at once."""

from __future__ import annotations

import pytest

from headwater.edges.hooks.config import check, read

GOOD = {"topic": "payments", "style": "stripe", "secret": "${HOOK_SECRET}"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")


def test_a_preset_needs_a_topic_and_a_secret():
    assert check("payments", GOOD) == []
    hook = read("payments", {**GOOD, "key": "data.object.id"})
    assert (hook.topic, tuple(hook.secrets), hook.style.header) == (
        "payments",
        ("s3cret",),
        "stripe-signature",
    )
    assert check("x", {}) == [f"lacks `{name} = …`" for name in ("topic", "style", "secret")]


def test_a_plain_style_is_put_together_from_settings():
    section = {
        **GOOD,
        "style": "plain",
        "header": "X-Acme-Signature",
        "prefix": "hmac ",
        "algorithm": "sha512",
        "encoding": "base64",
        "signed": "{timestamp}:{body}",
        "timestamp_header": "X-Acme-Time",
        "id_field": "event.id",
        "keep": ["X-Acme-Kind"],
    }
    assert check("acme", section) == []
    style = read("acme", section).style
    assert (style.header, style.timestamp_header) == ("x-acme-signature", "x-acme-time")
    assert (style.algorithm, style.encoding, style.kept) == ("sha512", "base64", ("x-acme-kind",))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"style": "strype"}, "did you mean 'stripe'"),
        ({"secret": "plain text"}, "secrets come from the environment"),
        ({"secret": "${NOT_THERE}"}, "the environment has no NOT_THERE"),
        ({"topik": "x"}, "has no setting 'topik'; did you mean 'topic'?"),
        ({"header": "x-mine"}, "this style has its own"),
        ({"style": "plain", "signed": "x"}, "leaves out {body}"),
        ({"style": "plain", "signed": "{timestamp}.{body}"}, "belong together"),
        ({"style": "plain", "timestamp_header": "x-time"}, "belong together"),
        ({"style": "plain", "signed": "{id}.{body}"}, "needs `id_header`"),
        ({"style": "plain", "algorithm": "md5"}, "is none of sha256, sha1, sha512"),
        ({"tolerance_s": 0}, "is no number of seconds"),
        ({"topic": 5}, "is no text in quotes"),
        ({"keep": "x-event"}, "is no list of headers"),
    ],
)
def test_a_mistake_is_told_with_what_mends_it(change: dict[str, object], complaint: str):
    said = check("payments", {**GOOD, **change})
    assert len(said) == 1
    assert complaint in said[0]


@pytest.mark.parametrize("found", ["whsec_", "whsec_===="])
def test_a_secret_with_nothing_behind_its_prefix_is_none(
    found: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOOK_SECRET", found)
    (said,) = check("payments", GOOD)
    assert "nothing stands behind whsec_" in said
