"""SASL on the raw wire, step by step, on both servers: right, wrong and out of order."""

from __future__ import annotations

import struct

import pytest

from tests.compat.wire import ConnectionClosed, ErrorCode, Wire, connected
from tests.security.scram_client import final, first, give_password, log_in
from tests.security.servers import PLAIN_PASSWORD, PLAIN_USER, Secured

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL = "SASL_PLAINTEXT"


def is_closed(wire: Wire) -> bool:
    try:
        wire.receive_bytes()
    except ConnectionClosed:
        return True
    return False


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_right_password_opens_the_connection(secured, user, password, mechanism, version):
    with connected(secured.listeners[SASL]) as wire:
        assert wire.ask("api_versions", 0).error_code == 0
        answer = log_in(wire, mechanism, user, password, version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, "")
        assert answer.auth_bytes.startswith(b"v=")
        assert wire.ask("metadata", 9, topics=[]).brokers[0].port == wire_port(secured, SASL)


def wire_port(secured: Secured, listener: str) -> int:
    return int(secured.listeners[listener].rpartition(":")[2])


def test_plain_users_of_the_settings_can_log_in(secured):
    with connected(secured.listeners[SASL]) as wire:
        answer = log_in(wire, "PLAIN", PLAIN_USER, PLAIN_PASSWORD)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b"")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_in_kafkas_words_and_closes(secured, user, mechanism):
    with connected(secured.listeners[SASL]) as wire:
        who = PLAIN_USER if mechanism == "PLAIN" else user
        answer = log_in(wire, mechanism, who, "wrong")
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message == (
            "Authentication failed: Invalid username or password"
            if mechanism == "PLAIN"
            else "Authentication failed during authentication due to invalid credentials "
            f"with SASL mechanism {mechanism}"
        )
        assert is_closed(wire)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_unknown_user_gets_the_same_words(secured, mechanism):
    with connected(secured.listeners[SASL]) as wire:
        answer = log_in(wire, mechanism, "nobody-at-all", "wrong")
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert "nobody" not in answer.error_message
        assert is_closed(wire)


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(secured):
    with connected(secured.listeners[SASL]) as wire:
        answer = wire.ask("sasl_handshake", 1, mechanism="GSSAPI")
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert sorted(answer.mechanisms) == sorted(MECHANISMS)
        assert is_closed(wire)


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [("metadata", 9, {"topics": None}), ("sasl_authenticate", 1, {"auth_bytes": b"x"})],
)
def test_nothing_else_is_answered_before_the_login(secured, api, version, fields):
    with connected(secured.listeners[SASL]) as wire:
        wire.send(api, version, **fields)
        assert is_closed(wire)


def test_a_second_question_for_versions_is_refused(secured):
    with connected(secured.listeners[SASL]) as wire:
        wire.ask("api_versions", 3, client_software_name="x", client_software_version="1")
        wire.send("api_versions", 3, client_software_name="x", client_software_version="1")
        assert is_closed(wire)


def test_an_unknown_version_of_the_question_may_be_followed_by_another(secured):
    with connected(secured.listeners[SASL]) as wire:
        wire.send_bytes(struct.pack(">hhih", 18, 99, 7, -1) + b"\0")
        assert wire.receive_bytes()[:6] == struct.pack(">ih", 7, ErrorCode.unsupported_version)
        assert wire.ask("api_versions", 0).error_code == 0


def test_logging_in_twice_is_an_illegal_state(secured, user, password):
    with connected(secured.listeners[SASL]) as wire:
        log_in(wire, "SCRAM-SHA-256", user, password)
        answer = wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        answer = wire.ask("sasl_authenticate", 2, auth_bytes=b"x")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert wire.ask("metadata", 9, topics=[]).brokers


def test_a_login_where_none_is_asked_for_is_an_illegal_state(secured):
    with secured.admin() as wire:
        answer = wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        answer = wire.ask("sasl_authenticate", 2, auth_bytes=b"x")
        assert answer.error_code is ErrorCode.illegal_sasl_state


def test_after_a_handshake_of_version_0_tokens_come_bare(secured, user, password):
    with connected(secured.listeners[SASL]) as wire:
        assert wire.ask("sasl_handshake", 0, mechanism="SCRAM-SHA-256").error_code == 0
        begin = first(user, "some-nonce")
        wire.send_bytes(begin)
        wire.send_bytes(final("SCRAM-SHA-256", password, begin, wire.receive_bytes()))
        assert wire.receive_bytes().startswith(b"v=")
        assert wire.ask("metadata", 9, topics=[]).brokers


def test_a_refused_bare_token_closes_without_an_answer(secured):
    with connected(secured.listeners[SASL]) as wire:
        wire.ask("sasl_handshake", 0, mechanism="PLAIN")
        wire.send_bytes(b"\0nobody\0nothing")
        assert is_closed(wire)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=ann",
        b"p=tls-unique,,n=ann,r=x",
        b"n,a=other,n=ann,r=x",
        b"n,,m=x,n=ann,r=x",
        b"n,,n=a=nn,r=x",
        b"n,,n=\xff,r=x",
        b"\0" * 1000,
    ],
)
def test_a_first_message_that_is_none_is_refused(secured, token):
    with connected(secured.listeners[SASL]) as wire:
        wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
        answer = wire.ask("sasl_authenticate", 2, auth_bytes=token)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert is_closed(wire)


@pytest.mark.parametrize("iterations", [4095, 16385])
def test_iterations_out_of_bounds_are_not_acceptable(secured, iterations):
    with secured.admin() as wire:
        code = give_password(wire, "SCRAM-SHA-256", "x", "y", iterations)
    assert code is ErrorCode.unacceptable_credential


def test_credentials_are_described_without_their_keys_and_can_be_taken_away(secured, user):
    with secured.admin() as wire:
        row = wire.ask("describe_user_scram_credentials", 0, users=[{"name": user}]).results[0]
        kept = sorted((each.mechanism, each.iterations) for each in row.credential_infos)
        assert kept == [(1, 4096), (2, 4096)]
        for code in (ErrorCode.none, ErrorCode.resource_not_found):
            answer = wire.ask(
                "alter_user_scram_credentials", 0, deletions=[{"name": user, "mechanism": 1}]
            )
            assert answer.results[0].error_code is code
        answer = wire.ask(
            "describe_user_scram_credentials", 0, users=[{"name": "none"}, {"name": user}]
        )
        assert {each.error_code for each in answer.results} == {
            ErrorCode.none,
            ErrorCode.resource_not_found,
        }
    with connected(secured.listeners[SASL]) as wire:
        answer = log_in(wire, "SCRAM-SHA-256", user, "anything")
        assert answer.error_code is ErrorCode.sasl_authentication_failed


def test_plain_is_checked_against_the_stored_keys(ours, password):
    from tests.security.conftest import new_user

    with connected(ours.listeners[SASL]) as wire:
        assert log_in(wire, "PLAIN", new_user(ours, password), password).error_code == 0


def test_an_unknown_user_is_challenged_like_a_known_one(ours, password):
    """And always with the same salt: nobody can tell from the answers who exists."""
    from tests.security.conftest import new_user

    known = new_user(ours, password)
    challenges = []
    for name in (known, "nobody-of-this-name", "nobody-of-this-name"):
        with connected(ours.listeners[SASL]) as wire:
            wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
            answer = wire.ask("sasl_authenticate", 2, auth_bytes=first(name, "n"))
            assert answer.error_code is ErrorCode.none
            challenges.append(dict(p.split(b"=", 1) for p in answer.auth_bytes.split(b",")))
    assert challenges[0][b"i"] == challenges[1][b"i"]
    assert challenges[1][b"s"] == challenges[2][b"s"]
    assert challenges[1][b"r"] != challenges[2][b"r"]
