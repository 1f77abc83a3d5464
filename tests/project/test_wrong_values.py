"""A wrong value of headwater.toml is named before anything starts, with the nearest right word."""

from __future__ import annotations

import socket
from contextlib import chdir
from pathlib import Path

import pytest

from headwater.cli.up import up
from headwater.errors import HeadwaterError
from headwater.project import doctor
from headwater.project.file import FILE, load
from headwater.project.parts import parts_of

LISTENERS = "[log.settings]\nlisteners = "
SHOP = '[capture.shop]\nfrom = "sqlite:shop.db"\n'
WRONG = {
    '[spark]\nmaster = "lokal[2]"': "did you mean 'local[2]'?",
    '[spark]\nremote = "http://spark"': "is no Spark Connect server",
    '[spark]\nremote = "sc://spark:port"': "is no Spark Connect server",
    '[spark]\ncheckpoints = "a-file/checkpoints"': "a-file is a file, not a folder",
    '[log]\nlisen = "127.0.0.1:9092"': "did you mean 'listen'?",
    '[log]\nlisten = "127.0.0.1:99999"': "is no HOST:PORT",
    '[log]\ndata = "a-file/log"': "a-file is a file, not a folder",
    '[log.settings]\n"log.retntion.ms" = 1': "did you mean log.retention.ms?",
    '[log.settings]\n"log.retention.ms" = "soon"': "Invalid value soon for configuration",
    '[capture.shop]\nfrom = "sqlit:shop.db"\ntables = ["a"]': "did you mean 'sqlite'?",
    '[capture.shop]\nfrom = "sqlite:shop.db"\ntabels = ["a"]': "did you mean 'tables'?",
    '[capture.shop]\nfrom = "sqlite:nowhere.db"\ntables = ["a"]': "there is no file nowhere.db",
    f'{SHOP}tables = "customers"': "is no list of tables",
    f"{SHOP}tables = [1]": "is no list of tables",
    f'{SHOP}format = "jsn"': "did you mean 'json'?",
    f'{SHOP}schema = "no"': "is neither true nor false",
    f"{SHOP}tombstones = 1": "is neither true nor false",
    f'{SHOP}transactions = "yes"': "is neither true nor false",
    f"{SHOP}outbox = true": "is no text in quotes",
    f"{SHOP}partitions = 0": "is no number of partitions",
    f'{SHOP}registry = "localhost:8081"': "is no address of a registry",
    f'{SHOP}topic_config = "compact"': "is no table of names and values",
    f'{SHOP}topic_config = {{ "retention.m" = "-1" }}': "did you mean 'retention.ms'?",
    f'{SHOP}topic_config = {{ "retention.ms" = "soon" }}': "Invalid value soon",
    '[views.x]\nto = "serch:data/x"': "did you mean 'search'?",
    '[views.x]\nto = "duckdb:a-file/x.duckdb"': "a-file is a file, not a folder",
    '[views.x]\nto = "sqlite:x.db"\ntaget = "y"': "[views.x] has no setting 'taget'",
    '[views.x]\nto = "topic:"': "names no topic",
    '[vews.x]\nto = "sqlite:x.db"': "did you mean 'views'?",
    '[log.settings]\nlisteners = "SASL_SSL://:9093"': "lacks 127.0.0.1:9092, which is",
    f'{LISTENERS}"SSL://127.0.0.1:9092"\n"ssl.keystore.location" = "nowhere.pem"': "nowhere.pem",
    f'{LISTENERS}"PLAINTXT://127.0.0.1:9092"': "did you mean 'PLAINTEXT'?",
    "[pipelines]\nbatch_records_max = 0": "is no number from 1 on",
    '[pipelines]\npaths = ["pipeline"]': "there is no pipeline",
    "[console]\nread_onyl = true": "did you mean 'read_only'?",
    '[console]\nlisten = "0.0.0.0:8765"': "without a token the console listens on this machine only",
    '[console.tls]\n"ssl.keystore.locaton" = "a.pem"': "did you mean ssl.keystore.location?",
    '[console.tls]\n"ssl.keystore.location" = "nowhere.pem"': "nowhere.pem",
    '[console]\ntoken = "secret"': "secrets come from the environment or files",
    '[console]\nlisten = "127.0.0.1:9092"': "[console] and [log] both listen on 127.0.0.1:9092",
    '[console.users]\nann = "admin"': "it is one of reader, operator, administrator",
    '[edges]\nlisten = "0.0.0.0:9092"': "[edges] and [log] both listen on",
    '[schemas]\nlisten = "127.0.0.1:9092"': "[schemas] and [log] both listen on",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_value_is_named_before_anything_starts(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text + "\n")
    (tmp_path / "a-file").touch()
    with chdir(tmp_path):
        assert any(WRONG[text] in each for each in told(tmp_path / FILE)), told(tmp_path / FILE)


NAMED = {
    "console": 'token = "${GIVEN}"',
    "console.tokens": 'reader = "${GIVEN}"',
    "console.oidc": 'issuer = "http://127.0.0.1:1"\nclient_id = "c"\naddress = "http://127.0.0.1:2"\n'
    'client_secret = "${GIVEN}"\n[console.oidc.users]\nann = "reader"',
    "console.tls": '"ssl.key.password" = "${GIVEN}"',
    "log.settings": '"ssl.key.password" = "${GIVEN}"',
    "spark.conf": '"spark.hadoop.fs.s3a.secret.key" = "${GIVEN}"',
    "views.x": 'to = "redis://app:${GIVEN}@127.0.0.1/0"',
    "capture.x": 'from = "postgresql://app:${GIVEN}@127.0.0.1/x"',
    "edges.tokens.x": 'secret = "${GIVEN}"\nread = ["x"]',
    "edges.bridges.x": 'from = "mqtt://app:${GIVEN}@127.0.0.1/a"\nto = "topic:a"',
    "edges.tracing": 'otlp = "http://127.0.0.1:1"\nheaders = { authorization = "${GIVEN}" }',
    "schemas.tokens.x": 'secret = "${GIVEN}"\nread = ["x"]',
}


@pytest.mark.parametrize("given", [None, "", "  "], ids=["missing", "empty", "blank"])
@pytest.mark.parametrize("section", NAMED)
def test_a_name_with_no_secret_behind_it_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, given: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GIVEN", raising=False)
    if given is not None:
        monkeypatch.setenv("GIVEN", given)
    Path(FILE).write_text(f"[{section}]\n{NAMED[section]}\n")

    def never(*_: object) -> None:
        raise AssertionError("started")

    monkeypatch.setattr("headwater.project.supervisor.Supervisor.__init__", never)
    wrong = "the environment has no GIVEN" if given is None else "GIVEN is empty in the environment"
    with pytest.raises(HeadwaterError, match=wrong):
        up(Path(FILE), quiet=True)


def test_listeners_of_the_settings_are_those_of_the_broker(tmp_path: Path) -> None:
    for given, is_told, is_secure in (
        ("", True, False),
        ('listeners = "SASL_SSL://:9093,PLAINTEXT://127.0.0.1:9092"', False, False),
        ('listeners = "SASL_SSL://:9092"', False, True),
    ):
        (tmp_path / FILE).write_text(f'[log]\ndata = "d"\n[log.settings]\n{given}\n')
        part = parts_of(load(tmp_path / FILE))[0]
        assert ("--listen" in part.words, part.is_secure) == (is_told, is_secure)


def test_an_address_of_the_console_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / FILE).write_text(f'[console]\nlisten = "{listen}"\n')
        assert any(f"nothing can listen at {listen}" in each for each in told(tmp_path / FILE))


def told(path: Path) -> list[str]:
    try:
        return [each.sentence for each in doctor.examine(load(path)) if not each.ok]
    except HeadwaterError as error:
        return [str(error)]


def test_values_that_are_right_are_not_complained_about(tmp_path: Path) -> None:
    from headwater.project import values

    (tmp_path / FILE).write_text(
        '[log]\ndata = "data/log"\nsettings = { "log.retention.ms" = 1000 }\n'
        '[console]\nlisten = "127.0.0.1:8765"\n[views.a]\nto = "topic:a"\n'
        '[views.b]\nto = "redis://127.0.0.1:6379/0"\n[views.c]\nto = "sqlite:deep/er/c.db"\n'
    )
    assert list(values.examine(load(tmp_path / FILE))) == []
