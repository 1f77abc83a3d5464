"""The pure parts: SCRAM against its RFC, names from certificates, ACL patterns, listeners."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.security import listeners, scram
from headwater.broker.security.acls import (
    Acl,
    AclTable,
    Denials,
    Filter,
    Operation,
    Pattern,
    Permission,
    decide,
)
from headwater.broker.security.credentials import jaas_users
from headwater.broker.security.listeners import BadListener
from headwater.broker.security.principal import BadRule, NoPrincipal, PrincipalRules, subject_name
from headwater.broker.settings import SettingError, Settings

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> scram.Exchange:
    key = scram.salted(scram.SHA_256, "pencil", SALT, 4096)
    made = scram.Exchange(scram.SHA_256)
    made.begin(CLIENT_FIRST)
    kept = scram.credential(scram.SHA_256, key, SALT, 4096)
    assert made.challenge(kept, SERVER_NONCE) == SERVER_FIRST
    return made


def test_the_exchange_of_the_rfc():
    made = exchange()
    assert made.user == "user"
    assert made.finish(CLIENT_FINAL) == SERVER_FINAL


@pytest.mark.parametrize(
    "wrong",
    [
        CLIENT_FINAL.replace(b"dHzb", b"dHzc"),
        CLIENT_FINAL.replace(b"biws", b"eSws"),
        CLIENT_FINAL.replace(b"k0,p", b"k1,p"),
        CLIENT_FINAL[:-8],
        b"",
    ],
)
def test_any_other_last_message_fails(wrong):
    with pytest.raises(scram.ScramError):
        exchange().finish(wrong)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error(data):
    made = scram.Exchange(scram.SHA_256)
    try:
        made.begin(data)
    except scram.ScramError:
        pass
    with pytest.raises(scram.ScramError):
        exchange().finish(data)


def test_a_credential_is_not_shown():
    kept = scram.credential(scram.SHA_512, b"k", b"s", 4096)
    assert repr(kept) == "<Credential, 4096 iterations>"


def test_the_users_of_a_jaas_line_keep_keys_only():
    found = jaas_users('x.PlainLoginModule required username="a" user_ann="p\\"w" user_bob="b";')
    kept = found["SCRAM-SHA-256", "ann"]
    assert scram.knows(scram.SHA_256, kept, 'p"w')
    assert not scram.knows(scram.SHA_256, kept, "b")
    assert len(found) == 2


# ---- names from certificates -----------------------------------------------------------------------

SUBJECT = ((("countryName", "CH"),), (("organizationName", "a, b"),), (("commonName", "Ann"),))


def test_a_subject_is_written_as_java_writes_it():
    assert subject_name(SUBJECT) == "CN=Ann,O=a\\, b,C=CH"
    assert subject_name(((("commonName", "#x"),),)) == "CN=\\#x"
    assert subject_name(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "User:CN=Ann,O=a\\, b,C=CH"),
        ("RULE:^CN=(.*?),.*$/$1/", "User:Ann"),
        ("RULE:^CN=(.*?),.*$/$1/L", "User:ann"),
        ("RULE:^CN=(.*?),.*$/$1@x/U,DEFAULT", "User:ANN@X"),
        ("RULE:^UID=(.*)$/$1/, RULE:^CN=(.*?),.*$/$1/", "User:Ann"),
    ],
)
def test_rules_make_names(rules, name):
    assert PrincipalRules(rules).from_certificate(SUBJECT) == name


def test_where_no_rule_matches_there_is_no_name():
    with pytest.raises(NoPrincipal):
        PrincipalRules("RULE:^UID=(.*)$/$1/").from_certificate(SUBJECT)


@pytest.mark.parametrize("text", ["RULE:x", "RULE:(/x/", "other", "RULE:a/$3/", "DEFAULT DEFAULT"])
def test_a_rule_that_cannot_be_read_is_refused(text):
    with pytest.raises(BadRule):
        PrincipalRules(text)


# ---- ACLs ------------------------------------------------------------------------------------------


def acl(name: str, pattern: int = 3, operation: int = 3, permission: int = 3) -> Acl:
    return Acl(2, name, pattern, "User:ann", "*", operation, permission)


names = st.text("ab*", min_size=1, max_size=4)
acls = st.builds(
    acl, names, st.sampled_from([3, 4]), st.sampled_from([2, 3, 4, 8]), st.sampled_from([2, 3])
)


@given(st.lists(acls, max_size=8), names)
def test_the_table_finds_what_matches(made, name):
    table = AclTable()
    for each in made:
        table.add(each)
    wanted = Filter(2, name, Pattern.MATCH, None, None, Operation.ANY, Permission.ANY)
    assert set(table.about(2, name, "User:ann")) == {each for each in made if wanted.matches(each)}
    for each in made:
        table.remove(each)
    assert list(table) == []


@given(st.lists(acls, max_size=6), names)
def test_a_denial_wins_and_what_is_allowed_somewhere_is_somewhere(made, name):
    table = AclTable()
    for each in made:
        table.add(each)
    said = decide(table.about(2, name, "User:ann"), "User:ann", "h", Operation.READ)
    matching = set(table.about(2, name, "User:ann"))
    if any(each.permission == 2 and each.operation in (2, 3) for each in matching):
        assert said is False
    if said and name != "*":
        mine = [each for each in made if each.operation in (2, 3)]
        denials = Denials()
        for each in mine:
            if each.permission == 2:
                denials.add(each)
        assert not all(denials.cover(each) for each in mine if each.permission == 3)
    assert not decide(table.about(2, name, "User:bob"), "User:bob", "h", Operation.READ)


def test_operations_imply_others_where_allowed_and_not_where_denied():
    describe = Operation.DESCRIBE
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert decide([acl("t", 3, operation)], "User:ann", "h", describe)
        allowed = acl("t", 3, describe)
        assert decide([allowed, acl("t", 3, operation, 2)], "User:ann", "h", describe)
    assert not decide([acl("t", 3, Operation.CREATE)], "User:ann", "h", describe)
    configs = Operation.DESCRIBE_CONFIGS
    assert decide([acl("t", 3, Operation.ALTER_CONFIGS)], "User:ann", "h", configs)


# ---- listeners -------------------------------------------------------------------------------------


def of(**settings: str) -> list[listeners.Listener]:
    return listeners.from_settings(
        Settings({name.replace("_", "."): value for name, value in settings.items()})
    )


def test_kafkas_own_words_make_listeners():
    found = of(
        listeners="PLAINTEXT://:9092,CLIENT://[::1]:9093,CONTROLLER://:9094",
        listener_security_protocol_map="CLIENT:SASL_SSL",
        advertised_listeners="CLIENT://example.org:19093",
    )
    assert [(each.name, each.protocol, each.host, each.port) for each in found] == [
        ("PLAINTEXT", "PLAINTEXT", "", 9092),
        ("CLIENT", "SASL_SSL", "::1", 9093),
    ]
    assert found[1].address == ("example.org", 19093)
    assert found[0].address_for("192.0.2.7") == ("192.0.2.7", 9092)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"listeners": "localhost:9092"}, "PLAINTEXT://127.0.0.1:9092"),
        ({"listeners": "PLAINTEXT://localhost"}, "PLAINTEXT://127.0.0.1:9092"),
        ({"listeners": "CONTROLLER://:9093"}, "PLAINTEXT://127.0.0.1:9092"),
        ({"listeners": "X://:1"}, "listener.security.protocol.map"),
        ({"listeners": "SSL://:1,SSL://:2"}, "listener.security.protocol.map"),
        ({"advertised_listeners": "SSL://h:1"}, "the same names"),
        ({"listener_security_protocol_map": "X:Y"}, "SASL_SSL"),
    ],
)
def test_a_listener_that_cannot_be_used_is_refused_with_the_remedy(settings, hint):
    with pytest.raises(BadListener) as refusal:
        of(**settings)
    assert hint in str(refusal.value.hint)


def test_one_listeners_own_settings_are_its_own():
    settings = Settings({"listener.name.client.ssl.client.auth": "required"})
    assert settings.of_listener("CLIENT") == {"ssl.client.auth": "required"}
    assert settings.get("ssl.client.auth") == "none"
    with pytest.raises(SettingError, match=r"a listener has no num.partitions of its own"):
        Settings({"listener.name.client.num.partitions": "2"})


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_other_key_stores_are_refused_with_the_way_to_convert_them(kind):
    with pytest.raises(SettingError, match="openssl pkcs12 -in"):
        Settings({"ssl.keystore.type": kind})
