"""Schemas within every bound that keep a library busy for hours: whoever sends one is refused, alone."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headwater.schemas import sandbox as sandbox_module
from headwater.schemas.errors import InvalidSchema, RegistryError
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Imported
from headwater.schemas.parser import Dated, Direct, Source, Unprepared
from headwater.schemas.sandbox import Sandbox
from tests.compat.waiting import until
from tests.schemas.conftest import serving

pytestmark = pytest.mark.timeout(900)
FILE = """
[log]
bootstrap = "127.0.0.1:1"
[schemas.tokens.small]
secret = "${SMALL}"
read = ["small.*"]
[schemas.tokens.shop]
secret = "${SHOP}"
read = ["shop.*"]
write = ["shop.*"]
"""
SECRETS = {"SMALL": "a small token of length", "SHOP": "the shop's token of length"}


def slow(number: int) -> str:
    """In draft 4 the values of an enum must differ, and each of these is compared with each."""
    values = [n if n % 2 else f"v{n}" for n in range(60_000 + number)]
    return json.dumps({"$schema": "http://json-schema.org/draft-04/schema#", "enum": values})


def union(letter: str) -> Source:
    names = [{"type": "record", "name": f"{letter}{n}", "fields": []} for n in range(8_000)]
    return Source(AVRO, json.dumps(names, separators=(",", ":")))


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(cpu_s=1)
    yield made
    made.close()


def test_a_token_that_may_only_read_stops_nobody(kafka: str, tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text(FILE)
    refused: list[httpx.Response] = []

    def ask(number: int) -> None:
        asked = {"schemaType": "JSON", "schema": slow(number)}
        with httpx.Client(headers={"Authorization": f"Bearer {SECRETS['SMALL']}"}) as client:
            try:
                path = f"{url}/compatibility/subjects/small.x/versions"
                refused.append(client.post(path, json=asked, timeout=280))
            except httpx.HTTPError:
                pass  # the registry has ended with the test

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(9)]
    with serving(kafka, "--topic", "_sandbox", folder=tmp_path, **SECRETS) as url:
        for each in threads:
            each.start()
        mine = {"Authorization": f"Bearer {SECRETS['SHOP']}"}
        for number in range(5):
            asked = {"schema": json.dumps({"type": "fixed", "name": "F", "size": number})}
            path = f"{url}/subjects/shop.{number}/versions"
            answer = httpx.post(path, json=asked, headers=mine, timeout=120)
            assert answer.status_code == 200, answer.text
        until(lambda: refused, "one of them to be refused", 240)
    for each in threads:
        each.join(120)
    assert refused and refused[0].status_code == 422
    assert refused[0].json()["error_code"] == 42209
    assert "takes more than" in refused[0].json()["message"]


def test_what_takes_too_long_ends_its_process_and_the_next_question_is_answered(sandbox: Sandbox):
    with pytest.raises(RegistryError, match="takes more than"):
        sandbox.text(Source(JSON, slow(0)), "canonical", is_new=True)
    assert sandbox.text(Source(AVRO, '"int"'), "canonical", is_new=True) == '"int"'


def test_a_comparison_that_takes_too_long_is_refused_and_not_tried_again(sandbox: Sandbox):
    one, other = union("a"), union("b")
    for _ in range(3):  # the second and third are known
        with pytest.raises(RegistryError, match="takes more than"):
            sandbox.complaints(one, [Dated(1, other)], "BACKWARD")


def test_who_registers_has_every_comparison_made_once_however_many_there_are(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """The second look is while no other may write; strangers ask in between."""
    asked: list[bytes] = []
    ask = sandbox._asked
    monkeypatch.setattr(sandbox, "_asked", lambda question: asked.append(question) or ask(question))
    monkeypatch.setattr(sandbox._answers, "_most", 8)
    new = Source(AVRO, '"long"')
    known = [
        Dated(n, Source(AVRO, json.dumps({"type": "int", "doc": str(n)}))) for n in range(1, 21)
    ]
    with sandbox.remembering():
        assert sandbox.complaints(new, known, "BACKWARD_TRANSITIVE") == []
        others = [Source(AVRO, f'{{"type":"fixed","name":"f","size":{n}}}') for n in range(20)]
        threads = [
            threading.Thread(target=sandbox.text, args=(each, "canonical"), kwargs={"is_new": True})
            for each in others
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        before = len(asked)
        assert before == len(known) + len(others)
        with sandbox.from_memory():
            assert sandbox.complaints(new, known, "BACKWARD_TRANSITIVE") == []
            assert len(asked) == before
            with pytest.raises(Unprepared):
                sandbox.complaints(new, [Dated(21, Source(AVRO, '"float"'))], "BACKWARD")
        assert sandbox.complaints(new, [Dated(21, Source(AVRO, '"float"'))], "BACKWARD")


def test_a_process_that_others_have_ended_says_nothing_about_a_schema(sandbox: Sandbox):
    for text in ('"int"', '"long"'):
        assert sandbox.text(Source(AVRO, text), "canonical", is_new=True) == text
        (process,) = sandbox._pools[0].idle
        process._process.send_signal(signal.SIGKILL)  # as the kernel does for want of memory


def test_what_is_ended_while_it_looks_is_asked_again_and_never_refused_for_good(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    ask, ended = sandbox_module._Process.ask, []

    def ended_meanwhile(self: sandbox_module._Process, question: bytes) -> object:
        if len(ended) < 3:
            ended.append(self._process.pid)
            self._process.kill()
        return ask(self, question)

    monkeypatch.setattr(sandbox_module._Process, "ask", ended_meanwhile)
    with pytest.raises(RegistryError, match="ended by something else"):
        sandbox.text(Source(AVRO, '"int"'), "canonical", is_new=True)
    assert sandbox.text(Source(AVRO, '"int"'), "canonical", is_new=True) == '"int"'
    assert len(set(ended)) == 3 and len(sandbox._pools[0].idle) == 1


@pytest.mark.parametrize("kind", [AVRO, JSON, PROTOBUF])
def test_answers_are_those_of_the_same_process(sandbox: Sandbox, kind: str):
    texts = {
        AVRO: ('{"type":"record","name":"R","fields":[]}', '"string"'),
        JSON: ('{"type":"object","title":"a"}', '{"type":"string"}'),
        PROTOBUF: ('syntax="proto3"; message A { int32 a = 1; }', 'syntax="proto3"; message B {}'),
    }[kind]
    one, other = (Source(kind, each) for each in texts)
    for form in ("canonical", "normalized", "serialized"):
        assert sandbox.text(one, form, is_new=True) == Direct().text(one, form, is_new=True)  # type: ignore[arg-type]
    for level in ("BACKWARD", "FULL_TRANSITIVE"):
        known = [Dated(1, one), Dated(2, other)]
        assert sandbox.complaints(one, known, level) == Direct().complaints(one, known, level)


def test_references_go_with_a_schema(sandbox: Sandbox):
    needed = Imported("shop.Id", '{"type":"fixed","name":"shop.Id","size":4}')
    record = '{"type":"record","name":"R","fields":[{"name":"id","type":"shop.Id"}]}'
    text = sandbox.text(Source(AVRO, record, (needed,)), "canonical", is_new=True)
    assert "shop.Id" in text


def test_what_a_library_fails_at_is_an_invalid_schema(sandbox: Sandbox):
    text = json.dumps({"pattern": "(" * 5000 + ")" * 5000})
    with pytest.raises(InvalidSchema, match="nested"):
        sandbox.text(Source(JSON, text), "canonical", is_new=True)


def test_its_processes_know_no_secrets(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP", "planted")
    sandbox.text(Source(AVRO, '"int"'), "canonical", is_new=True)
    (process,) = sandbox._pools[0].idle
    environment = Path(f"/proc/{process._process.pid}/environ")
    if not environment.exists():
        pytest.skip("no /proc here")
    assert b"planted" not in environment.read_bytes()
    assert b"planted" in str(os.environ).encode()


def test_what_finds_no_room_is_asked_of_the_one_large_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox_module, "MEMORY_BYTES", 64 * 1024**2)
    made, fields = Sandbox(), "".join(f"string f{n}={n + 1};" for n in range(18_000))
    text = f'syntax="proto3"; message M {{{fields}}}'
    try:
        assert "f17999" in made.text(Source(PROTOBUF, text), "canonical", is_new=True)
        small, large = made._pools
        assert (small.idle, len(large.idle)) == ([], 1)
    finally:
        made.close()


def test_what_finds_no_room_in_the_large_one_is_refused(monkeypatch: pytest.MonkeyPatch):
    for name in ("MEMORY_BYTES", "LARGE_BYTES"):
        monkeypatch.setattr(sandbox_module, name, 64 * 1024**2)
    made, fields = Sandbox(), "".join(f"string f{n}={n + 1};" for n in range(18_000))
    try:
        with pytest.raises(RegistryError, match="takes more than"):
            made.text(
                Source(PROTOBUF, f'syntax="proto3"; message M {{{fields}}}'),
                "canonical",
                is_new=True,
            )
    finally:
        made.close()


def test_all_processes_together_have_a_bound():
    together = sandbox_module.PROCESSES * sandbox_module.MEMORY_BYTES
    assert together + sandbox_module.LARGE_BYTES <= 2 * 1024**3
