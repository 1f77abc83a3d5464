"""`headwater doctor --production`: each line of the list fails where it should, and says what to write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headwater.cli import main
from headwater.project.file import load
from headwater.project.hardening import CHECKS, examine
from headwater.project.values import Finding

GOOD = """
[log]
listen = "0.0.0.0:9093"

[log.settings]
listeners = "SASL_SSL://0.0.0.0:9093"
"ssl.keystore.location" = "/etc/headwater/server.pem"
"ssl.key.password" = "${file:/run/secrets/key}"
"authorizer.class.name" = "acl"
"super.users" = "User:ann"

[console]
listen = "0.0.0.0:8765"
tls = true

[console.users]
ann = "administrator"

[edges]
listen = "0.0.0.0:8086"
tls = true

[edges.tokens.shop]
secret = "${SHOP}"
read = ["orders", "shop.*"]

[edges.webhooks.billing]
from = "topic:orders"
to = "https://billing.example/hooks"
secret = "${BILLING}"

[schemas]
listen = "0.0.0.0:8081"
tls = true

[schemas.tokens.capture]
secret = "${CAPTURE}"
read = ["*"]
write = ["sales.*"]

[views.rows]
to = "postgresql://app:${PASSWORD}@db/app"
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HEADWATER_MASTER_KEY", raising=False)


def written(folder: Path, text: str) -> Path:
    path = folder / "headwater.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def failed(folder: Path, text: str) -> dict[str, Finding]:
    found = list(examine(load(written(folder, text))))
    assert [each.name for each in found] == list(CHECKS)
    return {each.name: each for each in found if not each.ok}


def test_a_project_that_follows_the_list_passes(tmp_path: Path):
    assert failed(tmp_path, GOOD) == {}


@pytest.mark.parametrize(
    ("line", "was", "now", "remedy"),
    [
        ("broker: TLS and login", "SASL_SSL://", "SASL_PLAINTEXT://", "SASL_SSL://0.0.0.0:9093"),
        ("broker: TLS and login", '"SASL_SSL://0.0', '"SSL://0.0', "ssl.keystore.location"),
        (
            "broker: TLS and login",
            '"super.users"',
            '"headwater.insecure" = true\n"super.users"',
            "",
        ),
        ("broker: authorizer", '"authorizer.class.name" = "acl"', "", '"authorizer.class.name"'),
        (
            "broker: authorizer",
            '"super.users"',
            '"allow.everyone.if.no.acl.found" = true\n"super.users"',
            "allow.everyone",
        ),
        ("broker: durability", '"super.users"', 'durability = "os"\n"super.users"', '"disk"'),
        ("broker: free space", '"super.users"', '"log.min.free.bytes" = 0\n"super.users"', "= 0"),
        ("edges: TLS", '8086"\ntls = true', '8086"', "[edges]: tls = true"),
        ("edges: tokens", '"shop.*"]', '"*"]', "[edges.tokens.shop]: read"),
        ("edges: tokens", '[edges.tokens.shop]\nsecret = "${SHOP}"\nread', "#", "[edges.tokens."),
        (
            "edges: limits",
            "[edges.tokens",
            "[edges.limits]\nrequests_per_second = 0\n[edges.tokens",
            "requests_per_second",
        ),
        ("edges: webhooks", "https://billing", "http://billing", "https://"),
        ("schemas: TLS", '8081"\ntls = true', '8081"', "[schemas]: tls = true"),
        (
            "schemas: tokens",
            'write = ["sales.*"]',
            'write = ["*"]',
            "[schemas.tokens.capture]: write",
        ),
        (
            "schemas: tokens",
            '[schemas.tokens.capture]\nsecret = "${CAPTURE}"\nread = ["*"]\nwrite = ["sales.*"]',
            "",
            "[schemas.tokens.NAME]",
        ),
        ("console: TLS", '8765"\ntls = true', '8765"', "[console]: tls = true"),
        ("console: login", '[console.users]\nann = "administrator"', "", "[console.users]"),
        (
            "console: login",
            'tls = true\n\n[console.users]\nann = "administrator"',
            'tls = true\ntoken = "${CONSOLE}"',
            "[console.tokens]",
        ),
        ("secrets: not in the file", "app:${PASSWORD}@", "app:hunter2@", "views.rows.to"),
        ("secrets: not in the file", '"${file:/run/secrets/key}"', '"hunter2"', "ssl.key.password"),
        ("data: file modes", '"super.users"', '"headwater.umask" = "022"\n"super.users"', "umask"),
    ],
)
def test_each_line_fails_alone_and_says_what_to_write(
    tmp_path: Path, line: str, was: str, now: str, remedy: str
):
    assert was in GOOD
    found = failed(tmp_path, GOOD.replace(was, now, 1))
    assert set(found) == {line}
    assert remedy in (found[line].remedy or "")
    assert "hunter2" not in f"{found[line]}"


def test_modes_of_files(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse")
    secret.chmod(0o644)
    text = GOOD.replace("${SHOP}", f"${{file:{secret}}}")
    assert set(failed(tmp_path, text)) == {"secrets: file modes"}
    secret.chmod(0o600)
    (tmp_path / "data" / "log").mkdir(parents=True)
    (tmp_path / "data" / "log").chmod(0o755)
    assert set(failed(tmp_path, text)) == {"data: file modes"}
    (tmp_path / "data" / "log").chmod(0o700)
    (tmp_path / "data" / "checkpoints").mkdir(mode=0o755)
    assert set(failed(tmp_path, text)) == {"data: file modes"}
    (tmp_path / "data" / "checkpoints").chmod(0o700)
    path = written(tmp_path, text)
    path.chmod(0o666)
    assert {each.name for each in examine(load(path)) if not each.ok} == {"secrets: file modes"}


def test_the_master_key_where_personal_data_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tmp_path / "data" / "log"
    (data / "__headwater_keys-0").mkdir(parents=True)
    data.chmod(0o700)
    assert set(failed(tmp_path, GOOD)) == {"data: master key"}
    monkeypatch.setenv("HEADWATER_MASTER_KEY", "ab" * 32)
    assert failed(tmp_path, GOOD) == {}
    (data / "headwater.keys-0").mkdir()
    assert failed(tmp_path, GOOD)["data: master key"].remedy == "headwater keys move"


def test_the_command_exits_with_1_and_speaks_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, GOOD.replace("0.0.0.0:8086", "127.0.0.1:8086").replace('"shop.*"', '"*"'))
    assert main(["doctor", "--production", "--json"]) == 1
    found = {each["name"]: each["ok"] for each in json.loads(capsys.readouterr().out)}
    assert [name for name, ok in found.items() if not ok] == ["edges: tokens"]
    written(tmp_path, GOOD)
    assert main(["doctor", "--production"]) == 0


def test_the_page_has_the_list_that_is_checked():
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    table = page.partition("## The hardening list")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\w+: [^|]+?) \|", table, re.MULTILINE) == list(CHECKS)
