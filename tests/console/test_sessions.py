"""Tokens, roles and cookies: who comes in as what, cookies end, and guessing is slowed down."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from starlette.requests import Request

from headwater.console.guesses import (
    PLACE_MAX,
    TRIES_MAX,
    TRIES_WITHIN_S,
    Guesses,
    client_of,
    networks_of,
)
from headwater.console.login import Login
from headwater.console.sessions import (
    SESSION_S,
    TOKEN,
    Sessions,
    Token,
    Visitor,
)
from headwater.project.roles import Grants, Role
from headwater.secrets import MissingSecret

NOW = 1_800_000_000.0
ANN = Visitor("User:ann", Role.OPERATOR)


def sessions_of(token: str = "river") -> Sessions:
    return Sessions([Token(Role.ADMINISTRATOR, token), Token(Role.READER, "pond")])


def cookie_of(sessions: Sessions, token: str = "river", now: float = NOW) -> str:
    cookie = sessions.cookie_for(token, now)
    assert cookie is not None
    return cookie


@pytest.mark.parametrize(("token", "role"), [("river", Role.ADMINISTRATOR), ("pond", Role.READER)])
def test_a_token_gets_a_cookie_with_its_role_that_holds_until_it_ends(
    token: str, role: Role
) -> None:
    sessions = sessions_of()
    cookie = cookie_of(sessions, token)
    found = sessions.find(cookie, NOW + SESSION_S - 1)
    assert found is not None and found.visitor == Visitor(f"token:{role.word}", role)
    assert sessions.find(cookie, NOW + SESSION_S + 1) is None


def test_a_wrong_token_gets_nothing() -> None:
    sessions = sessions_of()
    for wrong in ("lake", "", "rivér"):
        assert sessions.cookie_for(wrong, NOW) is None
    assert Sessions().cookie_for("", NOW) is None


def test_a_cookie_cannot_be_made_stretched_or_raised_by_hand() -> None:
    sessions = sessions_of()
    body, _, signature = cookie_of(sessions, "pond").partition(".")
    said = json.loads(urlsafe_b64decode(body))

    def forged(**changes: object) -> str:
        changed = urlsafe_b64encode(json.dumps(said | changes).encode()).decode()
        return f"{changed}.{signature}"

    assert sessions.find(forged(), NOW) is not None, "the forging itself works"
    for each in (
        None,
        "",
        "x",
        ".",
        f"{body}.",
        f"{body}.é",
        f"é.{signature}",
        f"bnVsbA==.{signature}",
        "x" * 10_000,
        forged(until=NOW * 2),
        forged(role="administrator"),
        forged(by="name"),
        forged(by="name", role="administrator"),
        forged(role="boss"),
    ):
        assert sessions.find(each, NOW) is None


def test_whoever_knows_a_readers_token_cannot_sign_as_another() -> None:
    """All that a holder of `pond` can compute are cookies signed with `pond`."""
    theirs = Sessions([Token(Role.ADMINISTRATOR, "pond")])
    assert sessions_of().find(cookie_of(theirs, "pond"), NOW) is None
    assert sessions_of().find(theirs.begin(ANN, NOW), NOW) is None


def signed_by_hand(token: str, **said: object) -> str:
    """As whoever has the token can make one."""
    body = urlsafe_b64encode(json.dumps(said).encode()).decode()
    key = hashlib.sha256(b"headwater console session\0" + token.encode()).digest()
    return f"{body}.{hmac.new(key, body.encode(), hashlib.sha256).hexdigest()}"


def test_whoever_has_a_token_signs_no_longer_session_and_no_other_name() -> None:
    said = {"id": "x", "by": "token", "name": "User:ann", "role": "reader"}
    found = sessions_of().find(signed_by_hand("pond", **said, until=NOW + SESSION_S), NOW)
    assert found is not None and found.visitor == Visitor("token:reader", Role.READER)
    ten_years = 3650 * 24 * 60 * 60
    for until in (NOW + SESSION_S + 1, NOW + ten_years, "inf", "nan", "soon", None, [], NOW):
        assert sessions_of().find(signed_by_hand("pond", **said, until=until), NOW) is None
    assert sessions_of().find(signed_by_hand("pond", **said), NOW) is None
    assert sessions_of().find(signed_by_hand("pond", role="reader", until=NOW + 1), NOW) is None


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_an_empty_token_is_an_error(empty: str) -> None:
    with pytest.raises(MissingSecret, match="token of the administrator is empty"):
        Token(Role.ADMINISTRATOR, empty)


def test_a_restart_logs_no_token_out_and_a_new_token_its_visitors_only() -> None:
    admin, reader = cookie_of(sessions_of(), "river"), cookie_of(sessions_of(), "pond")
    assert sessions_of().find(admin, NOW) is not None
    assert sessions_of("sea").find(admin, NOW) is None
    assert sessions_of("sea").find(reader, NOW) is not None


def test_somebody_signed_in_otherwise_has_name_and_role_until_he_leaves() -> None:
    sessions = Sessions(lifetime_s=60)
    cookie = sessions.begin(ANN, NOW)
    found = sessions.find(cookie, NOW + 59)
    assert found is not None and found.visitor == ANN
    assert sessions.find(cookie, NOW + 60) is None
    other = sessions.begin(ANN, NOW)
    sessions.end(found, NOW)
    assert sessions.find(cookie, NOW) is None and sessions.find(other, NOW) is not None


def test_after_many_wrong_tokens_even_the_right_one_waits() -> None:
    sessions = sessions_of()
    for second in range(TRIES_MAX):
        assert sessions.cookie_for("wrong", NOW + second) is None
    assert sessions.guesses.is_closed(NOW + TRIES_MAX, "", TOKEN)
    assert sessions.cookie_for("river", NOW + TRIES_MAX) is None
    assert sessions.cookie_for("river", NOW + TRIES_MAX, "192.0.2.7") is not None, "somebody else"
    assert sessions.cookie_for("river", NOW + TRIES_WITHIN_S + 1) is not None


@pytest.mark.parametrize(
    ("guesses", "also", "not_"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"),
        ("::ffff:192.0.2.7", "192.0.2.7", "::ffff:192.0.2.8"),
        ("192.0.2.7", "::ffff:192.0.2.7", "192.0.2.8"),
        ("fe80::1%eth0", "fe80::2", "fe80:0:0:1::1"),
        ("a name", "a name", "another"),
    ],
)
def test_who_guesses_is_counted_by_what_one_customer_has(
    guesses: str, also: str, not_: str
) -> None:
    sessions = sessions_of()
    for _ in range(TRIES_MAX):
        sessions.guesses.failed(NOW, guesses, TOKEN)
    assert sessions.guesses.is_closed(NOW, also, TOKEN) and not sessions.guesses.is_closed(
        NOW, not_, TOKEN
    )
    sessions.guesses.forgive(also, TOKEN)
    assert not sessions.guesses.is_closed(NOW, guesses, TOKEN)


def test_a_right_try_forgives_itself_and_no_wrong_one() -> None:
    sessions = sessions_of()
    for _ in range(TRIES_MAX - 1):
        sessions.guesses.failed(NOW, "here", TOKEN)
    sessions.guesses.failed(NOW, "here", TOKEN)
    sessions.guesses.forgive("here", TOKEN)
    assert not sessions.guesses.is_closed(NOW, "here", TOKEN)
    sessions.guesses.failed(NOW, "here", TOKEN)
    assert sessions.guesses.is_closed(NOW, "here", TOKEN)


@pytest.mark.parametrize(
    ("name", "groups", "role"),
    [
        ("ann", (), Role.OPERATOR),
        ("ann", ("ops",), Role.ADMINISTRATOR),
        ("bob", (), None),
        ("bob", ("ops", "others"), Role.ADMINISTRATOR),
        ("bob", ("others",), None),
        ("*", (), None),
    ],
)
def test_the_highest_role_of_name_and_groups_counts(
    name: str, groups: tuple[str, ...], role: Role | None
) -> None:
    grants = Grants({"ann": Role.OPERATOR}, {"ops": Role.ADMINISTRATOR})
    assert grants.role_of(name, groups) is role


def test_a_star_is_everybody_else_and_takes_nothing_away() -> None:
    grants = Grants({"*": Role.READER, "ann": Role.OPERATOR})
    assert grants.role_of("bob") is Role.READER
    assert grants.role_of("ann") is Role.OPERATOR


def test_who_mistypes_his_own_password_shuts_out_nobody_else_at_his_address() -> None:
    guesses = Guesses()
    for _ in range(TRIES_MAX):
        guesses.failed(NOW, "192.0.2.7", "User:ann")
    assert guesses.is_closed(NOW, "192.0.2.7", "User:ann")
    assert not guesses.is_closed(NOW, "192.0.2.7", "User:bob")
    assert not guesses.is_closed(NOW, "192.0.2.7", TOKEN)
    assert not guesses.is_closed(NOW, "192.0.2.8", "User:ann")


def test_who_goes_through_names_is_shut_out_by_all_of_them() -> None:
    guesses = Guesses()
    for number in range(PLACE_MAX):
        guesses.failed(NOW, "192.0.2.7", f"User:{number}")
    assert guesses.is_closed(NOW, "192.0.2.7", "User:ann")
    assert not guesses.is_closed(NOW + TRIES_WITHIN_S, "192.0.2.7", "User:ann")


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),  # no proxy of ours: anybody could say so
        ("10.0.0.5", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.5", "203.0.113.9, 198.51.100.1", "198.51.100.1"),  # the first is the client's word
        ("10.0.0.5", "203.0.113.9, 198.51.100.1, 10.0.0.6", "198.51.100.1"),
        ("::ffff:10.0.0.5", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.5", "nonsense", "10.0.0.5"),
        ("10.0.0.5", "", "10.0.0.5"),
    ],
)
def test_a_proxy_of_ours_says_who_asks_and_nobody_else_does(
    peer: str, forwarded: str, found: str
) -> None:
    assert client_of(peer, forwarded, networks_of(["10.0.0.0/24"])) == found


@pytest.mark.parametrize(
    ("scheme", "peer", "proto", "is_secure"),
    [
        ("https", "192.0.2.7", "", True),
        ("http", "10.0.0.5", "https", True),
        ("http", "10.0.0.5", "http", False),
        ("http", "10.0.0.5", "", False),
        ("http", "192.0.2.7", "https", False),  # no proxy of ours: anybody could say so
    ],
)
def test_the_cookie_is_for_tls_only_where_the_browser_came_by_it(
    scheme: str, peer: str, proto: str, is_secure: bool
) -> None:
    login = Login(Sessions(), proxies=networks_of(["10.0.0.0/24"]))
    headers = [(b"x-forwarded-proto", proto.encode())] if proto else []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/login",
        "query_string": b"",
        "scheme": scheme,
        "server": ("console.example", 80),
        "client": (peer, 1),
        "headers": headers,
    }
    cookie = login.welcome(Request(scope), "x").headers["set-cookie"]
    assert ("secure" in cookie.lower()) == is_secure
