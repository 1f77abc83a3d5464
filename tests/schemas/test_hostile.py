"""What a stranger sends: too much, too deep, into itself, or to somewhere else. Each is refused, in a sentence."""
# ruff: noqa: E501  (a case is a line)

from __future__ import annotations

import http.server
import json
import threading
from contextlib import suppress

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schemas import bounds, kinds
from headwater.schemas.errors import RegistryError
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Imported

ANY_OF = json.dumps({"anyOf": [{"type": "object", "properties": {f"p{n}": {"anyOf": [
    {"type": "object", "properties": {f"q{m}": {"type": "string"}}} for m in range(40)]}}}
    for n in range(40)]})  # fmt: skip


def nested(depth: int, begin: str, inner: str, end: str) -> str:
    return begin * depth + inner + end * depth


HOSTILE = {
    "deep avro": (AVRO, nested(5000, '{"type":"array","items":', '"int"', "}")),
    "deep json": (JSON, nested(5000, '{"not":', "{}", "}")),
    "deep list": (JSON, nested(100_000, "[", "", "]")),
    "deep proto": (PROTOBUF, 'syntax = "proto3";' + nested(5000, "message M {", "", "}")),
    "deep option": (PROTOBUF, 'syntax = "proto3"; option (x) = ' + nested(5000, "{a:", "1", "}") + ";"),
    "huge": (AVRO, json.dumps({"type": "enum", "name": "E", "symbols": [f"s{n}" for n in range(200_000)]})),
    "a schema inside itself": (JSON, '{"$ref":"#"}'),
    "references in a circle": (JSON, '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},'
                                     '"b":{"$ref":"#/definitions/a"}}}'),
    "a file": (JSON, '{"$ref":"file:///etc/passwd"}'),
    "an import of a file": (PROTOBUF, 'syntax = "proto3"; import "/etc/passwd"; message M {}'),
    "an import above": (PROTOBUF, 'syntax = "proto3"; import "../../../etc/passwd"; message M {}'),
    "an import of itself": (PROTOBUF, 'syntax = "proto3"; import "schema.proto"; message M {}'),
    "a name that is none": (AVRO, '{"type":"record","name":"../x","fields":[]}'),
    "a type that is a number": (AVRO, "7"),
    "a field without end": (AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":{"type":1}}}]}'),
    "half a pair": (AVRO, '{"type":"record","name":"R","doc":"\ud800","fields":[]}'),
    "null bytes": (PROTOBUF, "\0\0\0"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused_in_one_sentence(name):
    kind, text = HOSTILE[name]
    with pytest.raises(RegistryError) as refused:
        kinds.parse(kind, text)
    assert refused.value.status == 422 and len(refused.value.sentence) < 1200


def test_nothing_is_fetched_from_wherever_a_reference_leads():
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/x.json"
        texts = [
            {"$ref": url},
            {"$schema": url, "type": "object"},
            {"$id": url, "$ref": "y.json"},
            {"properties": {"a": {"allOf": [{"$ref": url}]}}},
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicRef": url},
            {"$schema": url, "$ref": f"{url}#/definitions/a"},
        ]
        for each in texts:
            with suppress(RegistryError):
                kinds.parse(JSON, json.dumps(each))
        server.shutdown()
        thread.join()
    assert asked == []


@pytest.mark.parametrize(
    "name", ["../x.proto", "/etc/x.proto", "a/../../x.proto", "schema.proto", "a\\b.proto", ""]
)
def test_a_reference_cannot_name_a_file_outside(name):
    with pytest.raises(RegistryError):
        kinds.parse(
            PROTOBUF, 'syntax = "proto3"; message M {}', [Imported(name, 'syntax = "proto3";')]
        )


def test_a_comparison_that_would_never_end_is_refused():
    one, two = kinds.parse(JSON, ANY_OF), kinds.parse(JSON, ANY_OF.replace('"string"', '"number"'))
    with pytest.raises(RegistryError) as refused:
        two.unreadable(one)
    assert "too many alternatives" in refused.value.sentence


@given(st.sampled_from([AVRO, PROTOBUF, JSON]), st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_parses_or_is_refused(kind, text):
    try:
        parsed = kinds.parse(kind, text)
    except RegistryError:
        return
    assert kinds.parse(kind, parsed.canonical).canonical == parsed.canonical


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["record", "enum", "int"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["type", "name", "fields", "items", "symbols", "values", "size", "default", "$ref",
                         "properties", "anyOf", "not", "enum", "aliases", "$id", "required", "pattern",
                         "additionalProperties", "namespace", "order", "dependencies"]),
        inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


@given(st.sampled_from([AVRO, JSON]), JSON_VALUES, JSON_VALUES)
@settings(max_examples=400, deadline=None)
def test_any_json_parses_and_compares_or_is_refused(kind, one, other):
    try:
        first = kinds.parse(kind, json.dumps(one))
        second = kinds.parse(kind, json.dumps(other))
        second.unreadable(first)
    except RegistryError:
        return
    assert kinds.parse(kind, first.canonical).canonical == first.canonical
    assert first.unreadable(first) == [] or kind == JSON


def test_a_body_that_is_too_large_is_answered(registry):
    with httpx.Client(base_url=registry, timeout=60) as http:
        body = b'{"schema": "' + b"x" * (5 * 1024**2) + b'"}'
        assert http.post("/subjects/big/versions", content=body).status_code == 413
        text = '"' + "x" * bounds.SCHEMA_BYTES_MAX + '"'
        answer = http.post("/subjects/big/versions", json={"schema": text})
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42209)
        deep = b'{"schema":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        assert http.post("/subjects/big/versions", content=deep).status_code == 400
        assert http.get("/healthz").json() == {"ok": True}


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b'"metadata": ' + b"[" * 900 + b"]" * 900, 422),
        (b'"ruleSet": ' + b'{"a":' * 900 + b"1" + b"}" * 900, 422),
        (b'"metadata": {"properties": {"a": "\\ud800"}}', 422),
        (b'"metadata": {"properties": {"a": "' + b"x" * bounds.SCHEMA_BYTES_MAX + b'"}}', 422),
        (b'"references": [{"name": "\\ud800", "subject": "beside", "version": 1}]', 422),
        (b'"metadata": {"properties": {"a": "b"}}', 200),
    ],
)
def test_what_goes_beside_a_schema_has_the_bounds_of_one(registry, more, status):
    with httpx.Client(base_url=registry, timeout=60) as http:
        assert http.post("/subjects/beside/versions", json={"schema": '"int"'}).status_code == 200
        body = b'{"schema": "\\"int\\"", ' + more + b"}"
        answer = http.post("/subjects/beside.more/versions", content=body)
        assert answer.status_code == status, answer.text
        assert http.get("/schemas").status_code == 200


def test_a_version_of_any_length_is_a_number_or_refused(registry):
    with httpx.Client(base_url=registry, timeout=60) as http:
        for version in ("0" * 11 + "1" + "9" * 5000, "9" * 5000, "-2", "0", "1" * 12):
            answer = http.get(f"/subjects/none/versions/{version}")
            assert (answer.status_code, answer.json()["error_code"]) == (422, 42202)


def test_a_page_of_another_place_may_not_ask(registry):
    with httpx.Client(base_url=registry, timeout=60) as http:
        assert (
            http.get("/subjects", headers={"origin": "https://elsewhere.example"}).status_code
            == 403
        )
        assert http.get("/subjects", headers={"host": "elsewhere.example"}).status_code == 403
