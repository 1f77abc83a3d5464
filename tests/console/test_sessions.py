"""The token and the cookie: only the right token opens, cookies end, and guessing is slowed down."""

from __future__ import annotations

from headwater.console.sessions import SESSION_S, TRIES_MAX, TRIES_WITHIN_S, Sessions

NOW = 1_800_000_000.0


def test_the_right_token_gets_a_cookie_that_holds_until_it_ends() -> None:
    sessions = Sessions("river")
    cookie = sessions.cookie_for("river", NOW)
    assert cookie is not None
    assert sessions.holds(cookie, NOW + SESSION_S - 1)
    assert not sessions.holds(cookie, NOW + SESSION_S + 1)


def test_a_wrong_token_gets_nothing() -> None:
    sessions = Sessions("river")
    assert sessions.cookie_for("lake", NOW) is None
    assert sessions.cookie_for("", NOW) is None
    assert sessions.cookie_for("rivér", NOW) is None


def test_a_cookie_cannot_be_made_or_stretched_by_hand() -> None:
    sessions = Sessions("river")
    cookie = sessions.cookie_for("river", NOW)
    assert cookie is not None
    signature = cookie.partition(".")[2]
    for forged in (
        None,
        "",
        "x",
        f"{int(NOW) * 2}.{signature}",
        f"{int(NOW)}.",
        "²." + signature,
        "1.é",
    ):
        assert not sessions.holds(forged, NOW)


def test_a_restart_logs_nobody_out_and_a_new_token_everybody() -> None:
    cookie = Sessions("river").cookie_for("river", NOW)
    assert Sessions("river").holds(cookie, NOW)
    assert not Sessions("lake").holds(cookie, NOW)


def test_after_many_wrong_tokens_even_the_right_one_waits() -> None:
    sessions = Sessions("river")
    for second in range(TRIES_MAX):
        assert sessions.cookie_for("wrong", NOW + second) is None
    assert sessions.is_closed(NOW + TRIES_MAX)
    assert sessions.cookie_for("river", NOW + TRIES_MAX) is None
    assert sessions.cookie_for("river", NOW + TRIES_MAX, "192.0.2.7") is not None, "somebody else"
    assert sessions.cookie_for("river", NOW + TRIES_WITHIN_S + 1) is not None
