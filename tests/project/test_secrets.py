"""A project with passwords runs, and what it writes and shows has none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
from cryptography.hazmat.primitives import serialization

from headwater.client import ranges
from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.project.test_up import Up, project
from tests.security.servers import Authority
from tests.views.redis.server import redis_server

WRITTEN, NAMED = "hush-written-4711", "hush-named-0815"
PIPELINE = """
import headwater as hw

def orders():
    return hw.table("shop.orders", schema="id LONG, item STRING", key="id")

@hw.view("written", key="id")
def written():
    return orders()

@hw.view("named", key="id")
def named():
    return orders()
"""


@pytest.mark.timeout(900)
def test_no_password_of_a_target_is_in_a_file_a_topic_or_a_list_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    monkeypatch.setenv("CACHE_PASSWORD", NAMED)
    with redis_server() as cache, project(tmp_path) as up:
        client = cache.client()
        client.acl_setuser(
            "a", enabled=True, passwords=[f"+{WRITTEN}"], keys="*", commands=["+@all"]
        )
        client.acl_setuser("b", enabled=True, passwords=[f"+{NAMED}"], keys="*", commands=["+@all"])
        client.acl_setuser(
            "default", enabled=True, passwords=["+open"], nopass=False, reset_passwords=True
        )
        at = f"127.0.0.1:{cache.port}"
        toml = tmp_path / "headwater.toml"
        console = f"127.0.0.1:{free_port()}"
        toml.write_text(
            f'{toml.read_text()}[pipelines]\npaths = ["pipelines"]\n[console]\nlisten = "{console}"\n'
            f'[views.written]\nto = "redis://a:{WRITTEN}@{at}/0"\n'
            f'[views.named]\nto = "redis://b:${{CACHE_PASSWORD}}@{at}/0"\n'
        )
        (tmp_path / "pipelines").mkdir()
        (tmp_path / "pipelines" / "views.py").write_text(PIPELINE)
        up.start()
        up.insert("lamp")
        rows = ("*written:*1", "*named:*1")
        until(lambda: all(map(client.keys, rows)), "the row in both views", timeout=240)
        seen = _processes(up) + _listed(up)
        assert up.end() == 0
    seen += "".join(
        path.read_bytes().decode("latin-1")
        for path in tmp_path.rglob("*")
        if path.is_file() and path != toml
    )
    assert "order" in seen and "redis://a:***@" in seen and "redis://b:${CACHE_PASSWORD}@" in seen
    assert WRITTEN not in seen and NAMED not in seen


def _processes(up: Up) -> str:
    assert up.process is not None
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 4
    words: list[str] = []
    for child in children:
        with suppress(psutil.Error):  # one that has just ended
            words += child.cmdline()
    assert any(word.startswith("written=redis://") for word in words)
    return " ".join(words)


def _listed(up: Up) -> str:
    command = [sys.executable, "-m", "headwater", "views", "--bootstrap", up.address]
    done = subprocess.run(
        command, cwd=up.folder, env=os.environ, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


PLACES = (
    *("TOKEN", "HOOK", "OUT", "HEADER", "MAIL", "ALERT", "MQTT", "AMQP", "KEY", "TRACING"),
    *("CONSOLE", "READER", "CLIENT", "CAPTURE", "MYSQL", "MONGODB", "TLS", "SCHEMAS", "MULTICAST"),
    *("PATH", "CALL"),
)
"""Each takes a secret; what is planted there has its name in it."""
EVERYWHERE = """
[log.settings]
"ssl.keystore.location" = "KEYSTORE"
"ssl.key.password" = "${HUSH_TLS}"

[capture.away]
from = "postgresql://app:${HUSH_CAPTURE}@127.0.0.1:1/shop"
tables = ["orders"]

[capture.other]
from = "mysql://app:${HUSH_MYSQL}@127.0.0.1:1/shop"
tables = ["orders"]

[capture.third]
from = "mongodb://app:${HUSH_MONGODB}@127.0.0.1:1/shop"
tables = ["orders"]

[schemas]
listen = "SCHEMAS"
[schemas.tokens.ann]
secret = "${HUSH_SCHEMAS}"
read = ["*"]

[console]
listen = "CONSOLE"
tls = true
token = "${HUSH_CONSOLE}"
[console.tokens]
reader = "${HUSH_READER}"
[console.oidc]
issuer = "http://127.0.0.1:1"
client_id = "console"
client_secret = "${HUSH_CLIENT}"
address = "https://CONSOLE"
users = { ann = "reader" }

[edges]
listen = "EDGES"
[edges.tokens.ann]
secret = "${HUSH_TOKEN}"
read = ["*", "webhook:*"]
write = ["*"]
admin = ["webhook:*"]
[edges.hooks.gate]
topic = "gate"
style = "token"
header = "x-token"
secret = "${HUSH_HOOK}"
[edges.webhooks.out]
from = "topic:shop.orders"
to = "http://127.0.0.1:1/out/${HUSH_PATH}"
secret = "${HUSH_OUT}"
headers = { x-api-key = "${HUSH_HEADER}" }
start = "beginning"
attempts = 1
allow_private = true
[edges.alerts.mail]
on = "topic:shop.orders"
when = "matches"
to = "mailto:ops@shop.example"
smtp = "smtp+starttls://127.0.0.1:1"
from = "us@shop.example"
user = "us"
password = "${HUSH_MAIL}"
attempts = 1
[edges.alerts.call]
on = "topic:shop.orders"
when = "matches"
to = "http://127.0.0.1:1/alert?with=${HUSH_CALL}"
secret = "${HUSH_ALERT}"
attempts = 1
allow_private = true
[edges.bridges.mqtt]
from = "mqtt://app:${HUSH_MQTT}@127.0.0.1:1/things"
to = "topic:things"
[edges.bridges.amqp]
from = "amqp://app:${HUSH_AMQP}@127.0.0.1:1/"
queue = "jobs"
to = "topic:jobs"
[edges.bridges.group]
from = "multicast://239.255.0.1:MULTICAST"
to = "topic:prices"
interface = "127.0.0.1"
secret = "${HUSH_MULTICAST}"
[edges.subscriptions]
key = "${HUSH_KEY}"
allow_private = true
[edges.tracing]
otlp = "http://127.0.0.1:1"
ratio = 1.0
headers = { authorization = "${HUSH_TRACING}" }
"""


@pytest.mark.timeout(900)
def test_no_secret_of_any_part_is_in_what_it_writes_or_shows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are for cannot be reached, so that every part has something to complain about."""
    planted = {name: f"hush-{name.lower()}-{number:032}" for number, name in enumerate(PLACES)}
    for name, secret in planted.items():
        monkeypatch.setenv(f"HUSH_{name}", secret)
    console, edges, schemas = (f"127.0.0.1:{free_port()}" for _ in range(3))
    keystore = _keystore(tmp_path_factory.mktemp("tls"), planted["TLS"])
    with project(tmp_path) as up:
        toml = tmp_path / "headwater.toml"
        more = EVERYWHERE.replace("KEYSTORE", str(keystore)).replace("CONSOLE", console, 1)
        more = more.replace("https://CONSOLE", f"https://{console}").replace("EDGES", edges)
        more = more.replace('"SCHEMAS"', f'"{schemas}"').replace(":MULTICAST", f":{free_port()}")
        toml.write_text(toml.read_text() + more)
        assert all(f"${{HUSH_{name}}}" in more for name in PLACES)
        up.start()
        up.insert("lamp")
        with httpx.Client(base_url=f"http://{edges}", timeout=60) as client:
            until(lambda: _answers(client), "the edges", timeout=120)
            made = _used(client, planted["TOKEN"], planted["HOOK"])
            letters = ("webhooks.out", "alerts.mail.delivery", "alerts.call.delivery")
            with Log(up.address) as log:
                for name in letters:
                    dead = f"{name}.dead-letters"
                    until(lambda d=dead: _told(up, log, d), name, timeout=120, pause=1.0)
                seen = _topics(log)
            auth = {"Authorization": f"Bearer {planted['TOKEN']}"}
            for path in ("/status", "/metrics", "/openapi.json", "/webhooks", "/webhooks/w"):
                seen += client.get(path, headers=auth).text
        auth = {"Authorization": f"Bearer {planted['SCHEMAS']}"}
        for path in ("/subjects", "/metrics", "/status", "/config"):
            seen += httpx.get(f"http://{schemas}{path}", headers=auth, timeout=60).text
        seen += httpx.get(f"https://{console}/login", verify=False).text
        assert up.process is not None
        for child in psutil.Process(up.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                seen += " ".join(child.cmdline())
        for words in (["status", "--json"], ["doctor"], ["doctor", "--production"]):
            done = up.command(*words)
            seen += done.stdout + done.stderr
        assert up.end() == 0
    seen += "".join(
        path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()
    )
    assert "127.0.0.1:1" in seen and "webhooks.out" in seen
    assert [name for name, secret in planted.items() if secret in seen] == []
    assert made not in seen and made.removeprefix("whsec_") not in seen


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.HTTPError:
        return False


def _used(client: httpx.Client, token: str, hook: str) -> str:
    """Everything that takes a secret, right and wrong; the secret of a subscription."""
    auth = {"Authorization": f"Bearer {token}"}
    until(
        lambda: client.post("/hooks/gate", json={}, headers={"x-token": hook}).status_code == 200,
        "the hook's topic",
    )
    for wrong in (f"{token}x", token[:-1]):
        said = client.get("/status", headers={"Authorization": f"Bearer {wrong}"})
        assert said.status_code == 401
    assert client.get(f"/topics/gate?access_token={token}x").status_code == 401
    assert client.get(f"/topics/gate?access_token={token}").status_code == 200
    new = {"name": "w", "topic": "gate", "to": "http://127.0.0.1:1/w", "attempts": 1}
    made: str = client.post("/webhooks", json=new, headers=auth).json()["secret"]
    assert not client.post("/webhooks/w/ping", headers=auth).json()["delivered"]
    return made


def _keystore(folder: Path, password: str) -> Path:
    """A certificate whose key is encrypted."""
    bundle = Authority(folder).issue("server", hosts=["127.0.0.1"]).bundle.read_bytes()
    key = serialization.load_pem_private_key(bundle, None)
    shut = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    certificates = b"-----BEGIN CERTIFICATE" + bundle.split(b"-----BEGIN CERTIFICATE", 1)[1]
    found = folder / "encrypted.pem"
    found.write_bytes(shut + certificates.partition(b"-----BEGIN PRIVATE")[0])
    return found


def _told(up: Up, log: Log, topic: str) -> int:
    """How many letters there are; alerts begin with the records that come after their start."""
    up.insert("lamp")
    try:
        return log.ranges(topic)[0][1]
    except HeadwaterError:
        return 0


def _topics(log: Log) -> str:
    """All that they hold: in the files it may be compressed."""
    found = ""
    for topic in log.topics():
        for records in ranges.read(log, topic, log.ranges(topic)):
            found += "".join(str(record) for record in records)
    return found
