"""Every key that headwater.toml can have is given whatever a person or a template might write there.

Each value of `VALUES` is written at each key. What is right for a key stands in its line of the table, and
is taken; everything else must be complained about by `doctor`, with the key's name, and never by a traceback.
The table is compared with the keys that the code knows: a new one has to be entered, with what it takes.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import chdir
from itertools import chain
from pathlib import Path

import pytest

from headwater.broker.settings import Kind, broker_definitions
from headwater.capture import setting_forms
from headwater.edges import doctor as edges_doctor
from headwater.edges import oidc
from headwater.edges.alerts import config as alerts
from headwater.edges.bridges import config as bridges
from headwater.edges.config import KINDS, Limits
from headwater.edges.hooks import config as hooks
from headwater.edges.registry import config as registry
from headwater.edges.subscriptions import settings as subscriptions
from headwater.edges.tracing import settings as tracing
from headwater.edges.webhooks import subscription
from headwater.errors import HeadwaterError
from headwater.project import doctor, file, roles
from headwater.project.file import FILE, load

VALUES = {
    "true": "true",
    "1": "1",
    "0": "0",
    "-1": "-1",
    "1.5": "1.5",
    "nan": "nan",
    "inf": "inf",
    "huge": "9223372036854775807",
    "empty": '""',
    "blank": '" "',
    "nul": '"a\\u0000b"',
    "word": '"x"',
    "words": '"x y/:?"',
    "no file": '"nowhere/none.json"',
    "folder": '"a-folder"',
    "file": '"a-file"',
    "no port": '"http://h:notaport"',
    "high port": '"http://h:99999"',
    "no TLS": '"redis://h:notaport"',
    "[]": "[]",
    "[word]": '["x"]',
    "[1]": "[1]",
    "[empty]": '[""]',
    "{}": "{}",
    "{1}": "{ x = 1 }",
    "{[]}": "{ x = [] }",
    "date": "2020-01-01",
}
REFERENCE = '"${GIVEN}"'
NUMBERS = {"1", "1.5", "huge"}
SHOWN = {"word", "words", "no file", "folder", "file", "no port", "high port", "no TLS"}
"""What a free text may be."""
ANY = SHOWN | {"empty", "blank"}
NAME = {"word", "folder", "file"}
"""What a topic or a header may be called."""
PATH = {"word", "words", "no file", "folder"}
HOOK = {"topic": '"a"', "style": '"plain"', "secret": REFERENCE, "header": '"x-sig"'}
RECEIVER = {"to": '"https://a.example/x"', "secret": REFERENCE}
MAIL = {"to": '"mailto:a@b.example"', "smtp": '"smtps://b.example:465"', "from": '"c@d.example"'}
SENDING: dict[str, set[str]] = {
    "secret": set(),
    "headers": {"{}"},
    "allow_private": {"true"},
    "parallel": {"1"},
    "timeout_s": NUMBERS,
    "attempts": {"1"},
    "give_up_after_s": NUMBERS,
    "first_wait_s": NUMBERS,
    "longest_wait_s": NUMBERS,
    "breaker_failures": {"1"},
    "breaker_wait_s": NUMBERS,
}
OPEN_LIMITS = (
    "requests_per_second",
    "bytes_per_second",
    "requests_at_once",
    "connections_per_address",
)
ISSUER = {
    "issuer": set[str](),
    "jwks": set[str](),
    "groups_claim": SHOWN,
    "principal_claim": SHOWN,
    "skew_seconds": {"1", "0", "1.5"},
}

# Section → what makes it whole, and of each key which values are right.
Case = tuple[Mapping[str, str], Mapping[str, set[str]]]
SECTIONS: dict[str, Case] = {
    "log": ({}, {"data": PATH, "listen": set(), "bootstrap": set(), "settings": {"{}"}}),
    "spark": ({}, {"master": set(), "remote": set(), "checkpoints": PATH, "conf": {"{}"}}),
    "pipelines": (
        {},
        {
            "paths": set(),
            "batch_records_max": {"1", "huge"},
            "batch_bytes_max": {"1", "huge"},
        },
    ),
    "console": (
        {},
        {
            "listen": set(),
            "tls": set(),
            "connections_per_address": {"1", "0", "huge"},
            "tokens": set(),
            "users": set(),
            "oidc": set(),
            "session_minutes": {"1"},
            "proxies": {"[]"},
            "read_only": {"true"},
            "token": set(),
        },
    ),
    "console.oidc": (
        {
            "issuer": '"https://127.0.0.1:1"',
            "client_id": '"c"',
            "address": '"https://x.example"',
            "users": '{ ann = "reader" }',
        },
        {
            **ISSUER,
            "audience": set(),
            "client_id": SHOWN,
            "address": set(),
            "scope": SHOWN,
            "client_secret": set(),
            "users": set(),
            "groups": set(),
        },
    ),
    "views.a": ({"to": '"sqlite:x.db"'}, {"to": set()}),
    "edges": (
        {},
        {
            "name": SHOWN,
            "listen": set(),
            "origins": {"[]"},
            "tls": set(),
            **{key: {"{}"} for key in ("limits", *KINDS)},
            "tracing": set(),
            "oidc": set(),
            "subscriptions": set(),
        },
    ),
    "edges.limits": (
        {},
        {
            each.name: {"1"}
            | ({"0"} if each.name in OPEN_LIMITS else set())
            | ({"1.5", "huge"} if each.type == "float" else set())
            for each in dataclasses.fields(Limits)
        },
    ),
    "edges.tokens.a": (
        {"secret": REFERENCE, "read": '["a"]'},
        {"secret": set(), "read": {"[word]"}, "write": {"[]", "[word]"}, "admin": {"[]", "[word]"}},
    ),
    "edges.topics.a": ({"schema": '"schema.json"'}, {"schema": set()}),
    "edges.topics.b": ({"subject": '"s"'}, {"subject": SHOWN}),
    "edges.hooks.a": (
        HOOK,
        {
            "topic": NAME,
            "style": set(),
            "secret": set(),
            "header": NAME,
            "prefix": SHOWN,
            "algorithm": set(),
            "encoding": set(),
            "signed": set(),
            "timestamp_header": set(),
            "id_header": NAME,
            "id_field": SHOWN,
            "keep": {"[]", "[word]"},
            "key": SHOWN,
            "tolerance_s": NUMBERS,
        },
    ),
    "edges.webhooks.a": (
        {"from": '"topic:a"', **RECEIVER},
        {"from": set(), "to": set(), "where": {"[]"}, "start": set(), **SENDING},
    ),
    "edges.alerts.a": (
        {"on": '"topic:a"', "when": '"matches"', **RECEIVER},
        {
            "on": set(),
            "when": set(),
            "to": set(),
            "where": {"[]"},
            "grep": SHOWN,
            "every_s": NUMBERS,
            "at_most_every_s": NUMBERS,
            **SENDING,
        },
    ),
    "edges.alerts.b": (
        {"on": '"topic:a"', "when": '"matches"', **MAIL, "user": '"u"', "password": REFERENCE},
        {"smtp": set(), "from": set(), "user": SHOWN, "password": set()},
    ),
    "edges.oidc": (
        {
            "issuer": '"https://127.0.0.1:1"',
            "audience": '"c"',
            "groups": '{ ops = { read = ["*"] } }',
        },
        {**ISSUER, "audience": SHOWN | {"[word]"}, "groups": set(), "principals": {"{}"}},
    ),
    "edges.subscriptions": (
        {"key": REFERENCE},
        {
            "key": set(),
            "most": {"1", "huge"},
            "most_per_token": {"1", "huge"},
            "allow_private": {"true"},
        },
    ),
    "edges.tracing": (
        {"otlp": '"http://127.0.0.1:4318"'},
        {
            "otlp": set(),
            "ratio": {"1", "0"},
            "topics": {"[word]"},
            "patience_seconds": {"1", "1.5"},
            "headers": {"{}"},
            "service": SHOWN,
        },
    ),
    "schemas": (
        {},
        {
            "listen": set(),
            "tls": set(),
            "connections_per_address": {"1", "0", "huge"},
            "topic": NAME,
            "registry": set(),
            "tokens": {"{}"},
        },
    ),
    "schemas.tokens.a": (
        {"secret": REFERENCE, "read": '["*"]'},
        {"secret": set(), "read": {"[word]"}, "write": {"[]", "[word]"}, "admin": {"[]", "[word]"}},
    ),
}
WHOLE, CHOICE = {"1"}, {"true"}
CAPTURES: dict[str, tuple[str, dict[str, set[str]]]] = {
    "sqlite": ("sqlite:shop.db", {"outbox_delete": CHOICE}),
    "mysql": (
        "mysql://a@127.0.0.1:1/x",
        {
            "server_id": {"1", "0"},
            "decimals": set(),
            "zero_dates": set(),
            "chunk_rows": WHOLE,
            "gtid_jumps": CHOICE,
            "snapshot_workers": WHOLE,
            "silence_s": WHOLE,
            "without_tables": {"[]", "[word]"},
            "snapshot_from": set(),
            "read_moved_rows": CHOICE,
        },
    ),
    "postgresql": (
        "postgresql://a@127.0.0.1:1/x",
        {
            "slot": {"word"},
            "publication": SHOWN,
            "streaming": CHOICE,
            "chunk_rows": {"1", "0"},
            "snapshot_workers": WHOLE,
            "snapshot_from": set(),
            "slot_budget_mb": {"1", "0"},
            "slot_lost": set(),
            "silence_s": WHOLE,
            "outbox_prefix": SHOWN,
            "partitions_as": set(),
            "read_moved_rows": CHOICE,
        },
    ),
    "mongodb": ("mongodb://127.0.0.1:1/x", {"documents": set(), "silence_s": WHOLE}),
}
COMMON = {
    "tables": {"[]", "[word]"},
    "format": set(),
    "schema": CHOICE,
    "tombstones": CHOICE,
    "transactions": CHOICE,
    "topic_config": {"{}"},
    "partitions": {"1", "-1"},
    "record_bytes_max": set[str](),
    "snapshot_rows_per_second": {"1", "0"},
    "snapshot_max_lag_s": {"1", "0", "1.5", "huge"},
    "outbox": set[str](),  # the table x has other columns, and no other is there
    "traced": {"1", "0"},
    "registry": set[str](),
}
BRIDGES: dict[str, tuple[str, str, dict[str, set[str]]]] = {
    "amqp in": (
        "from",
        "amqp://h/v",
        {"queue": SHOWN, "declare": CHOICE, "bind": {"[]"}, "prefetch": WHOLE, "key": set()},
    ),
    "amqp out": (
        "to",
        "amqp://h/v",
        {
            "exchange": ANY,
            "routing_key": ANY,
            "mandatory": CHOICE,
        },
    ),
    "mqtt in": (
        "from",
        "mqtt://h/a",
        {
            "qos": {"1", "0"},
            "version": set(),
            "client_id": ANY,
            "ca": {"empty"},
            "key": set(),
            "session_hours": {"1", "0"},
        },
    ),
    "mqtts in": ("from", "mqtts://h/a", {"ca": {"empty"}}),
    "mqtt out": (
        "to",
        "mqtt://h/a",
        {
            "qos": WHOLE,
            "version": set(),
            "client_id": ANY,
            "ca": {"empty"},
            "retain": CHOICE,
        },
    ),
    "zmq in": (
        "from",
        "zmq+sub://h:1",
        {"bind": CHOICE, "high_water_mark": WHOLE, "subscribe": {"[word]", "[empty]"}},
    ),
    "zmq out": ("to", "zmq+push://h:1", {"bind": CHOICE, "high_water_mark": WHOLE}),
    "udp": (
        "from",
        "udp://127.0.0.1:9999",
        {
            "allow_from": {"[]"},
            "inbox_bytes": {"huge"},
            "key": set(),
            "receive_buffer_bytes": set(),
        },
    ),
    "statsd": (
        "from",
        "statsd://127.0.0.1:9999",
        {"allow_from": {"[]"}, "inbox_bytes": {"huge"}, "receive_buffer_bytes": set()},
    ),
    "multicast in": (
        "from",
        "multicast://239.1.2.3:5004",
        {
            "allow_from": {"[]"},
            "interface": set(),
            "receive_buffer_bytes": set(),
            "secret": SHOWN,
            "silence_seconds": NUMBERS,
        },
    ),
    "multicast out": (
        "to",
        "multicast://239.1.2.3:5004",
        {
            "allow_from": {"[]"},
            "hold_bytes": {"huge"},
            "hold_seconds": NUMBERS | {"0"},
            "interface": set(),
            "secret": SHOWN,
            "ttl": {"1", "0"},
        },
    ),
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIVEN", "0123456789abcdef0123456789abcdef")
    monkeypatch.delenv("HEADWATER_REGISTRY", raising=False)
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "schema.json").write_text("{}")
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE x (x INTEGER PRIMARY KEY)")
    shop.close()
    return tmp_path


def told(folder: Path) -> set[str]:
    """What `doctor` says, line by line."""
    try:
        project = load(folder / FILE)
        found = [doctor.examine(project)]
        if project.edges is not None:
            found.append(edges_doctor.examine(project))
        if project.schemas is not None:
            found.append(edges_doctor.examine_registry(project))
        with chdir(folder):
            failed = [each for each in chain(*found) if not each.ok]
    except HeadwaterError as error:
        return set(str(error).splitlines())
    return {f"{each.name}: {line}" for each in failed for line in each.sentence.splitlines()}


def written(folder: Path, section: str, lines: Mapping[str, str]) -> set[str]:
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    beside = "" if section == "log" else '[log]\nlisten = "127.0.0.1:19092"\n'
    (folder / FILE).write_text(f"{beside}[{section}]\n{text}")
    return told(folder)


def judge(folder: Path, section: str, whole: Mapping[str, str], key: str, right: set[str]) -> None:
    before = written(folder, section, whole)
    for name, value in VALUES.items():
        said = written(folder, section, {**whole, key: value}) - before
        wrong = f"[{section}] {key} = {value}: {said or 'nothing was said'}"
        assert (name in right) is not bool(said), wrong
        assert not any(re.search(r"\b[A-Z]\w+Error: ", each) for each in said), wrong
        assert not said or any(key in each or section in each for each in said), wrong


@pytest.mark.parametrize(
    ("section", "key"), [(name, key) for name, case in SECTIONS.items() for key in case[1]]
)
def test_only_right_values_are_taken(project: Path, section: str, key: str) -> None:
    whole, keys = SECTIONS[section]
    judge(project, section, whole, key, keys[key])


@pytest.mark.parametrize("way", BRIDGES)
def test_only_right_values_of_bridges_are_taken(project: Path, way: str) -> None:
    side, address, keys = BRIDGES[way]
    whole = {"from": '"topic:a"', "to": '"topic:a"'} | {side: json.dumps(address)}
    if way == "amqp in":
        whole["queue"] = '"q"'
    last = "once" if side == "from" else "start"
    for key, right in {**keys, side: set[str](), last: set[str]()}.items():
        judge(project, "edges.bridges.a", whole, key, right)


@pytest.mark.parametrize("kind", CAPTURES)
def test_only_right_values_of_captures_are_taken(
    project: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, keys = CAPTURES[kind]
    if kind != "sqlite":  # what the file says, before its server is asked
        monkeypatch.setattr(doctor, "_captured", lambda *_: iter(()))
    whole = {"from": json.dumps(address), "tables": '["x"]'}
    for key, right in {**(COMMON if kind == "sqlite" else {}), **keys}.items():
        judge(project, "capture.a", whole, key, right)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://h:notaport", "Port could not be cast"),
        ("redis://h:99999/0", "Port out of range"),
        ("redis://h/zero", "those of Redis have numbers"),
        ("redis:h:6379", "is no redis://HOST"),
        ("rediss://[::1:6379", "is no address"),
        ("postgresql://h:port/x", "Port could not be cast"),
        ("postgresql://a:1,b:x/d", "Port could not be cast"),
        ("postgresql:h/d", "is no postgresql://HOST"),
        ("opensearch+http://:9200", "names no host"),
        ("elasticsearch+https://h:0", "has port 0"),
        ("topic:a b", "is no name that a topic can have"),
        ("topic:", "names no topic"),
        ("search: ", "names no place"),
        ("sqlite:a-folder", "is a folder, not a file"),
        ("delta:a-file", "is a file, not a folder"),
        ("duckdb:a-file/x", "is a file, not a folder"),
        ("opensearch:h", "did you mean"),
    ],
)
def test_an_address_of_a_view_that_cannot_be_is_told(
    project: Path, address: str, said: str
) -> None:
    found = written(project, "views.a", {"to": json.dumps(address)})
    assert any(said in each for each in found), found


@pytest.mark.parametrize(
    "address",
    [
        "redis://h",
        "redis://:${GIVEN}@h:6379/2",
        "rediss://[::1]:6379",
        "postgresql:///shop",
        "postgresql://a:${GIVEN}@h1:5432,h2:5433/shop?sslmode=require",
        "opensearch+https://u:${GIVEN}@h:9200/prefix",
        "topic:shop.totals",
        "sqlite:a-file",
        "memory:",
    ],
)
def test_an_address_of_a_view_that_can_be_is_taken(project: Path, address: str) -> None:
    assert not [e for e in written(project, "views.a", {"to": json.dumps(address)}) if "view" in e]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.driver.memory", "lots"),
        ("spark.executor.memory", "2 gigs"),
        ("spark.sql.shuffle.partitions", "0"),
        ("spark.sql.shuffle.partitions", "many"),
        ("spark.executor.cores", "-1"),
        ("spark.sql.ansi.enabled", "yes"),
        ("spark.driver.port", "99999"),
        ("spark.network.timeout", "soon"),
        ("spark.sql.session.timeZone", "Berlin"),
        ("spark.scheduler.mode", "fairly"),
        ("spark.master", "local[2]"),
        ("driver.memory", "2g"),
    ],
)
def test_a_setting_of_spark_that_would_stop_it_or_be_passed_over_is_told(
    project: Path, name: str, value: str
) -> None:
    found = written(project, "spark.conf", {json.dumps(name): json.dumps(value)})
    assert any(name in each for each in found), found


def test_seconds_of_the_edges_may_be_less_than_one(project: Path) -> None:
    for key in ("slow_seconds", "consumer_idle_seconds", "requests_per_second"):
        assert not [each for each in written(project, "edges.limits", {key: "0.25"}) if key in each]


def test_a_mistake_in_a_section_of_settings_is_told_with_its_line(project: Path) -> None:
    (project / FILE).write_text(
        '[spark]\nmaster = "local[2]"\n\n[spark.conf]\n"spark.ui.port" = "x"\n'
    )
    assert [each.partition(f"{FILE}:")[2][:2] for each in told(project)] == ["4:"]


def test_settings_of_spark_that_are_right_are_taken(project: Path) -> None:
    right = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false",
        "spark.network.timeout": "120s",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.hadoop.fs.s3a.secret.key": "${GIVEN}",
        "spark.ui.port": "0",
    }
    found = written(project, "spark.conf", {json.dumps(n): json.dumps(v) for n, v in right.items()})
    assert not [each for each in found if "conf" in each], found


NUMERIC = (Kind.INT, Kind.SHORT, Kind.LONG, Kind.DOUBLE, Kind.BOOLEAN)


def test_no_setting_of_the_broker_takes_a_word_for_a_number(project: Path) -> None:
    named = [each.name for each in broker_definitions() if each.kind in NUMERIC]
    for name in named:
        found = written(project, "log.settings", {json.dumps(name): '"soon"'})
        assert any(name in each and "soon" in each for each in found), (name, found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": "127.0.0.1:19092"}, "is not NAME://HOST:PORT"),
        (
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:19092", "sasl.enabled.mechanisms": ""},
            "is empty",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:19092"}, "could read and write everything"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:19092", "advertised.listeners": "OTHER://h:1"},
            "which listeners does not have",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:19092",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.expected.issuer": "no address",
            },
            "by OAUTHBEARER",
        ),
    ],
)
def test_what_the_broker_would_refuse_at_its_start_is_told(
    project: Path, settings: dict[str, str], said: str
) -> None:
    lines = {json.dumps(name): json.dumps(value) for name, value in settings.items()}
    found = written(project, "log.settings", lines)
    assert any(said in each for each in found), found


def test_a_log_that_anybody_could_write_to_is_told(project: Path) -> None:
    found = written(project, "log", {"listen": '"0.0.0.0:19092"'})
    assert any("could read and write everything" in each for each in found), found


def test_every_key_that_there_is_has_a_line_here() -> None:
    known = {
        **{name: set(checks) for name, checks in file._SECTIONS.items()},
        "console.oidc": {
            *roles.settings.SETTINGS,
            *roles._OIDC_TEXTS,
            "client_secret",
            "users",
            "groups",
        },
        "edges": {
            "name",
            "listen",
            "origins",
            "tls",
            "limits",
            "tracing",
            "oidc",
            "subscriptions",
            *KINDS,
        },
        "edges.limits": {each.name for each in dataclasses.fields(Limits)},
        "edges.hooks.a": set(hooks._ALL),
        "edges.webhooks.a": set(subscription._KNOWN),
        "edges.oidc": {*oidc.SETTINGS, *oidc._NAMED},
        "edges.subscriptions": {"key", "allow_private", *subscriptions._NUMBERS},
        "edges.tracing": set(tracing._KNOWN),
        "schemas": set(registry._SETTINGS),
    }
    for section, keys in known.items():
        assert set(SECTIONS[section][1]) == keys, section
    told_twice = {*SECTIONS["edges.alerts.a"][1], *SECTIONS["edges.alerts.b"][1]}
    assert told_twice == set(alerts._KNOWN)
    assert set(COMMON) == set(setting_forms.COMMON)
    assert {name: set(keys) for name, (_, keys) in CAPTURES.items()} == {
        name: set(setting_forms.OPTIONS[name]) for name in CAPTURES
    }
    for side, address, keys in BRIDGES.values():
        kind = (bridges.inbound if side == "from" else bridges.outbound)(address)
        assert set(keys) in (set(kind.OPTIONS), {"ca"}), address
    assert {each[1].partition(":")[0] for each in BRIDGES.values()} >= {
        each.removesuffix("s") for each in bridges.INBOUND if each not in ("zmq+pull",)
    } - {"statsd", "zmq+sub"}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_key_that_is_misspelt_brings_the_right_one(project: Path, section: str) -> None:
    key = max(SECTIONS[section][1], key=len)
    found = written(project, section, {**SECTIONS[section][0], f"{key}x": "1"})
    assert any(f"did you mean '{key}'" in each for each in found), found
