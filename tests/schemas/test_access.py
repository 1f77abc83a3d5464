"""Who may do what: tokens, as bearer and as a user with a password, subjects, contexts, TLS, addresses."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from headwater.edges.config import Limits
from headwater.edges.registry import app
from headwater.edges.registry.access import Token, check
from headwater.edges.registry.config import RegistryConfig, read
from headwater.project.http_protocol import CONNECTIONS_MIN
from headwater.testing.certificates import Authority
from tests.compat.waiting import until
from tests.schemas.conftest import serving

SECRETS = {"SHOP": "s" * 20, "READER": "r" * 20, "ROOT": "a" * 20}
FILE = """
[log]
bootstrap = "{bootstrap}"
[log.settings]
"ssl.keystore.location" = "{keystore}"
"ssl.keystore.type" = "PEM"
[schemas]
listen = "127.0.0.1:{port}"
tls = {tls}
topic = "_schemas_access"
[schemas.tokens.shop]
secret = "${{SHOP}}"
read = ["*"]
write = ["shop.*"]
admin = ["shop.*"]
[schemas.tokens.reader]
secret = "${{READER}}"
read = ["shop.*", ":.team:*"]
[schemas.tokens.root]
secret = "${{ROOT}}"
read = ["*"]
write = ["*"]
admin = ["*"]
"""
TEXT = {"schema": '"string"'}


@pytest.fixture(scope="module")
def url(kafka, tmp_path_factory):
    from headwater.project.ports import free_port

    folder = tmp_path_factory.mktemp("access")
    text = FILE.format(bootstrap=kafka, keystore="none", port=free_port(), tls="false")
    (folder / "headwater.toml").write_text(text)
    words = ("--project", str(folder), "--listen", "127.0.0.1:0")
    with serving(kafka, *words, folder=folder, **SECRETS) as found:
        yield found


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRETS[name.upper()]}"}


def test_nobody_gets_in_without_a_token(url):
    assert httpx.get(f"{url}/subjects").status_code == 401
    assert httpx.get(f"{url}/subjects").json()["error_code"] == 401
    assert (
        httpx.get(f"{url}/subjects", headers={"authorization": "Bearer wrong"}).status_code == 401
    )
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_a_user_with_a_password_is_a_token_with_its_name(url):
    assert httpx.get(f"{url}/subjects", auth=("shop", SECRETS["SHOP"])).status_code == 200
    assert httpx.get(f"{url}/subjects", auth=("root", SECRETS["SHOP"])).status_code == 401
    bad = base64.b64encode(b"\xff:\xff").decode()
    assert (
        httpx.get(f"{url}/subjects", headers={"authorization": f"Basic {bad}"}).status_code == 401
    )


def test_confluents_client_logs_in(url):
    login = {"url": url, "basic.auth.user.info": f"shop:{SECRETS['SHOP']}"}
    with SchemaRegistryClient(login) as client:
        assert client.register_schema("shop.c-value", Schema('"long"', "AVRO")) > 0
        with pytest.raises(SchemaRegistryError) as refused:
            client.register_schema("else-value", Schema('"long"', "AVRO"))
        assert refused.value.http_status_code == 403


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        ("shop", "POST", "/subjects/shop.a/versions", TEXT, 200),
        ("shop", "POST", "/subjects/other/versions", TEXT, 403),
        ("shop", "POST", "/subjects/:.team:shop.a/versions", TEXT, 403),
        ("shop", "PUT", "/config/shop.a", {"compatibility": "FULL"}, 200),
        ("shop", "PUT", "/config", {"compatibility": "FULL"}, 403),
        ("shop", "PUT", "/mode", {"mode": "READONLY"}, 403),
        ("shop", "DELETE", "/subjects/other", None, 403),
        ("reader", "POST", "/subjects/shop.a/versions", TEXT, 403),
        ("reader", "DELETE", "/subjects/shop.a", None, 403),
        ("reader", "GET", "/subjects/other/versions", None, 403),
        ("reader", "GET", "/config", None, 403),
        ("root", "PUT", "/config", {"compatibility": "BACKWARD"}, 200),
        ("root", "POST", "/subjects/:.team:x/versions", TEXT, 200),
    ],
)
def test_a_token_reaches_what_its_scopes_name(url, who, method, path, body, status):
    answer = httpx.request(method, url + path, json=body, headers=as_(who))
    assert answer.status_code == status, answer.text


def test_lists_and_ids_show_what_a_token_may_read(url):
    made = httpx.post(
        f"{url}/subjects/secret/versions", json={"schema": '"bytes"'}, headers=as_("root")
    )
    httpx.post(f"{url}/subjects/shop.l/versions", json=TEXT, headers=as_("shop"))
    seen = httpx.get(f"{url}/subjects", headers=as_("reader")).json()
    assert "shop.l" in seen and "secret" not in seen
    found = httpx.get(f"{url}/schemas", headers=as_("reader")).json()
    assert "secret" not in {each["subject"] for each in found}
    path = f"{url}/schemas/ids/{made.json()['id']}"
    for more in ("", "/schema", "/subjects", "/versions"):
        refused = httpx.get(path + more, headers=as_("reader"))
        assert refused.status_code == 403 and "secret" not in refused.text
    assert httpx.get(path, headers=as_("root")).status_code == 200


def test_contexts_are_those_of_subjects_that_a_token_may_read(url):
    for context in (".team", ".board"):
        path = f"{url}/subjects/:{context}:plans/versions"
        assert httpx.post(path, json=TEXT, headers=as_("root")).status_code == 200
    seen = {
        who: httpx.get(f"{url}/contexts", headers=as_(who)).json() for who in ("reader", "root")
    }
    assert ".team" in seen["reader"] and ".board" not in seen["reader"]
    assert {".", ".team", ".board"} <= set(seen["root"])


async def test_a_token_has_limits_and_another_does_not_meet_them(monkeypatch):
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setattr(app, "Limits", lambda: Limits(requests_per_second=1, requests_at_once=3))
    tokens = {
        name: {"secret": f"${{{name.upper()}}}", "read": ["*"]} for name in ("shop", "reader")
    }
    served = app.App(None, RegistryConfig(tokens=tokens), loopback_only=False)
    transport = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=transport, base_url="http://registry") as http:
        asked = [await http.get("/schemas/types", headers=as_("shop")) for _ in range(20)]
        refused = [each for each in asked if each.status_code == 429]
        assert asked[0].status_code == 200 and refused
        assert refused[0].json()["error_code"] == 42901 and int(refused[0].headers["retry-after"])
        assert (await http.get("/schemas/types", headers=as_("reader"))).status_code == 200
        wrong = {"authorization": "Bearer of nobody that is known"}
        guesses = [await http.get("/schemas/types", headers=wrong) for _ in range(200)]
        assert {each.status_code for each in guesses} == {401, 429}


def test_a_query_of_very_many_fields_is_refused_in_a_sentence(url):
    asked = httpx.get(f"{url}/subjects?" + "a=1&" * 60, headers=as_("root"))
    assert asked.status_code == 400 and "query" in asked.json()["message"]


def test_a_reference_must_be_readable_to_who_makes_it(url):
    wanted = [{"name": "S", "subject": "secret", "version": 1}]
    body = {"schema": '"string"', "references": wanted}
    assert (
        httpx.post(f"{url}/subjects/shop.r/versions", json=body, headers=as_("reader")).status_code
        == 403
    )


def test_referrers_are_those_that_a_token_may_read(url):
    base = {"type": "record", "name": "Base", "fields": []}
    reference = {"name": "Base", "subject": "shop.base-value", "version": 1}
    put = lambda subject, **body: httpx.post(  # noqa: E731
        f"{url}/subjects/{subject}/versions", json=body, auth=("root", SECRETS["ROOT"])
    )
    put("shop.base-value", schema=json.dumps(base))
    ids = []
    for subject in ("shop.uses-value", "secret.uses-value"):
        field = {"name": "b", "type": "Base"}
        made = {"type": "record", "name": f"Uses{len(ids)}", "fields": [field]}
        ids.append(put(subject, schema=json.dumps(made), references=[reference]).json()["id"])
    path = f"{url}/subjects/shop.base-value/versions/1/referencedby"
    shown = {
        name: httpx.get(path, auth=(name, SECRETS[name.upper()])).json()
        for name in ("root", "reader")
    }
    assert shown == {"root": ids, "reader": ids[:1]}


def test_scopes_are_of_one_context():
    token = Token("t", {"read": ("shop.*", ":.team:*")})
    assert token.may("read", "shop.a") and token.may("read", ":.team:x")
    assert not token.may("read", ":.other:shop.a") and not token.may("read", "x")
    assert not token.may("write", "shop.a") and not token.may("read", "*")
    assert Token("t", {"admin": ("*",)}).may("admin", "*")


def test_every_mistake_in_the_section_is_told(monkeypatch):
    monkeypatch.setenv("SHORT", "abc")
    config, mistakes = read(
        {"listen": "nowhere", "colour": "red", "tokens": {"a": {"secret": "plain", "read": "x"},
         "b": {"secret": "${SHORT}"}}}
    )  # fmt: skip
    said = "\n".join(sentence for _, sentence in mistakes)
    for words in (
        "nowhere",
        "colour",
        'no "${NAME}"',
        "less than 16",
        "may do nothing",
        "is no list",
    ):
        assert words in said
    assert config.tokens == {}
    assert check("x", {"secret": "${SHORT}", "red": 1})


def test_without_tokens_it_listens_on_this_machine_only(kafka, tmp_path):
    words = [sys.executable, "-m", "headwater", "schemas", "serve", "--bootstrap", kafka]
    ended = subprocess.run(
        [*words, "--listen", "0.0.0.0:0"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert ended.returncode == 1 and "[schemas.tokens.NAME]" in ended.stderr


def test_whoever_opens_connections_without_end_leaves_the_process_its_files(kafka):
    with serving(kafka, "--topic", "_schemas_crowd", files=256) as url:
        place = url.removeprefix("http://").split(":")
        with httpx.Client(base_url=url) as earlier, ExitStack() as crowd:
            assert earlier.get("/healthz").status_code == 200
            for _ in range(4 * CONNECTIONS_MIN):
                crowd.enter_context(socket.create_connection((place[0], int(place[1]))))
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{url}/healthz")
            made = earlier.post("/subjects/crowd/versions", json=TEXT, timeout=240)
            assert made.status_code == 200, made.text  # it has files for a process that looks at it
        until(lambda: answers(f"{url}/healthz"), "the crowd to be forgotten")


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_tls_by_the_brokers_settings(kafka, tmp_path):
    from headwater.project.ports import free_port

    authority = Authority(tmp_path)
    keystore = authority.issue("registry", hosts=["127.0.0.1"]).bundle
    text = FILE.format(bootstrap=kafka, keystore=keystore, port=free_port(), tls="true")
    (tmp_path / "headwater.toml").write_text(text)
    words = ("--project", str(tmp_path), "--listen", "127.0.0.1:0")
    with serving(kafka, *words, folder=tmp_path, **SECRETS) as url:
        assert url.startswith("https://")
        login = url.replace("https://", f"https://root:{SECRETS['ROOT']}@")
        command = [sys.executable, "-m", "headwater", "schemas", "list", "--registry", login]
        ended = subprocess.run(
            [*command, "--ca", str(authority.certificate)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
        refused = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={**os.environ}
        )
        assert refused.returncode == 1 and "certificate" in refused.stderr
        assert SECRETS["ROOT"] not in refused.stderr


def test_a_project_runs_a_registry_after_its_broker(tmp_path):
    from headwater.project.file import load
    from headwater.project.parts import parts_of

    (tmp_path / "headwater.toml").write_text('[schemas]\nlisten = "127.0.0.1:8099"\n')
    broker, schemas = parts_of(load(tmp_path / "headwater.toml"))
    assert (broker.name, schemas.name, schemas.address) == ("broker", "schemas", "127.0.0.1:8099")
    assert schemas.words == ("schemas", "serve", "--project", "headwater.toml")
    assert schemas.stops < broker.stops


def test_the_default_context_s_settings_are_those_of_all_and_take_the_right_to_all():
    from headwater.edges.registry.call import Call
    from headwater.schemas.errors import RegistryError

    def scope(name: str, *scopes: str) -> str | None:
        token = Token("t", {"admin": scopes})
        return Call(None, {"subject": name}, {}, {}, ".", token).scope("admin")  # type: ignore[arg-type]

    for name in (":.:", ":."):
        with pytest.raises(RegistryError, match="may not admin"):
            scope(name, ":.:*", "shop.*", "**")
        assert scope(name, "*") is None
    assert scope(":.team:", ":.team:*") == ":.team:"
    assert scope("shop.a", ":.:*") == "shop.a"


def test_who_may_write_and_not_read_is_not_told_what_was_there(kafka, tmp_path):
    from headwater.project.ports import free_port

    text = FILE.format(bootstrap=kafka, keystore="none", port=free_port(), tls="false")
    text += '[schemas.tokens.writer]\nsecret = "${WRITER}"\nwrite = ["shop.*"]\n'
    (tmp_path / "headwater.toml").write_text(text)
    words = ("--project", str(tmp_path), "--listen", "127.0.0.1:0")
    secrets = SECRETS | {"WRITER": "w" * 20}
    body = {"schema": '{"type":"record","name":"secret_name","fields":[]}'}
    with serving(kafka, *words, folder=tmp_path, **secrets) as url:
        path = f"{url}/subjects/shop.untold/versions"
        assert httpx.post(path, json=body, headers=as_("root"), timeout=60).status_code == 200
        for who, is_told in (("writer", False), ("shop", True)):
            login = {"authorization": f"Bearer {secrets[who.upper()]}"}
            refused = httpx.post(path, json=TEXT, headers=login, timeout=60)
            assert refused.json()["error_code"] == 40901, refused.text
            assert ("secret_name" in refused.text) == is_told
