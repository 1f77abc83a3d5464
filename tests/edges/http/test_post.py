"""POST /topics/{topic} with a real client against a real log."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings import http as ce_http
from cloudevents.core.bindings import kafka as ce_kafka
from cloudevents.core.v1.event import CloudEvent

from headwater.browse.dead_letters.letter import letter_of
from headwater.client.log import Log
from headwater.client.position import Position
from tests.edges.http.reading import headers, records, values
from tests.edges.running import edges

Make = Callable[..., str]
NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}


def said(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    found: dict[str, Any] = answer.json()
    assert status == 200 or found["status"] == status
    return found


def test_json_is_stored_as_it_was_sent_and_answered_with_its_position(
    http: httpx.Client, log: Log, topic: Make
):
    name = topic()
    body = b' {"b": 1.50,\n "a": "\xc3\xa9"} '
    answer = http.post(f"/topics/{name}", params={"key": "k"}, content=body, headers=JSON)
    assert said(answer, 200) == {"topic": name, "partition": 0, "offset": 0}
    assert Position.parse(answer.headers["headwater-position"]) == Position({name: {0: 1}})
    (record,) = records(log, name)
    assert (record.key(), record.value(), record.headers()) == (b"k", body, None)


def test_a_key_comes_by_query_by_header_or_from_a_field(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    http.post(f"/topics/{name}", json=1, headers={"Headwater-Key": "from header"})
    http.post(f"/topics/{name}", json={"customer": {"id": 17}}, params={"key_field": "customer.id"})
    http.post(f"/topics/{name}", json=1)
    assert [record.key() for record in records(log, name)] == [b"from header", b"17", None]
    both = http.post(f"/topics/{name}", json={"id": 1}, params={"key": "a", "key_field": "id"})
    said(both, 400)
    without = http.post(f"/topics/{name}", json={}, params={"key_field": "id"})
    assert "'id'" in said(without, 422)["detail"]


def test_bytes_keep_their_content_type(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    for kind in ("image/png", None):
        sent = {} if kind is None else {"Content-Type": kind}
        said(http.post(f"/topics/{name}", content=b"\x00\xff", headers=sent), 200)
    said(http.post(f"/topics/{name}", content=b""), 200)
    found = records(log, name)
    assert [record.value() for record in found] == [b"\x00\xff", b"\x00\xff", b""]
    kinds = [headers(record)["content-type"] for record in found]
    assert kinds == [b"image/png", b"application/octet-stream", b"application/octet-stream"]


def test_lines_are_a_record_each(http: httpx.Client, log: Log, topic: Make):
    name = topic(3)
    lines = [json.dumps({"id": number % 10, "n": number}).encode() for number in range(3000)]
    answer = http.post(
        f"/topics/{name}", params={"key_field": "id"}, content=b"\n".join(lines), headers=NDJSON
    )
    found = said(answer, 200)
    assert found["records"] == 3000
    stored = records(log, name)
    assert sorted(m.value() or b"" for m in stored) == sorted(lines)
    assert all(json.loads(m.value() or b"")["id"] == int(m.key() or b"") for m in stored)
    assert sum(each["records"] for each in found["ranges"]) == 3000
    ends = {p: end for p, (first, end) in log.ranges(name).items() if end > first}
    position = Position.parse(answer.headers["headwater-position"])
    assert position == Position({name: ends})
    of_key = [json.loads(m.value() or b"")["n"] for m in stored if m.key() == b"3"]
    assert of_key == sorted(of_key)


def test_one_bad_line_and_nothing_is_stored(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    body = b'{"a":1}\n\n{"a":\n"\xff"\n'
    found = said(http.post(f"/topics/{name}", content=body, headers=NDJSON), 422)
    assert [each["line"] for each in found["lines"]] == [3, 4]
    assert "line 3" in found["detail"]
    assert values(log, name) == []


def test_partly_the_good_lines_are_stored_and_the_bad_ones_are_letters(
    http: httpx.Client, log: Log, topic: Make
):
    name = topic()
    body = b'{"a":1}\n{"a":\n{"a":3}\n'
    for _ in range(2):  # the second time under a key that is known: nothing new, letters included
        answer = http.post(
            f"/topics/{name}",
            params={"partial": "true"},
            content=body,
            headers={**NDJSON, "Idempotency-Key": "p"},
        )
        found = said(answer, 200)
        assert (found["records"], found["refused"]) == (2, 1)
        assert found["lines"][0]["line"] == 2
    assert values(log, name) == [b'{"a":1}', b'{"a":3}']
    (letter,) = map(letter_of, records(log, f"{name}.dead-letters"))
    assert letter is not None
    assert (letter.source, letter.value, letter.said["line"]) == (name, b'{"a":', "2")
    everything_bad = http.post(
        f"/topics/{name}", params={"partial": "true"}, content=b"{\n", headers=NDJSON
    )
    assert said(everything_bad, 200)["records"] == 0


def test_an_empty_body_of_lines_is_nothing_and_of_json_a_mistake(http: httpx.Client, topic: Make):
    name = topic()
    answer = http.post(f"/topics/{name}", content=b"\n", headers=NDJSON)
    assert said(answer, 200) == {"topic": name, "records": 0, "ranges": []}
    said(http.post(f"/topics/{name}", content=b"", headers=JSON), 400)
    said(http.post("/topics/nowhere", content=b"\n", headers=NDJSON), 404)


def test_the_same_key_again_gives_the_same_answer(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    words: dict[str, Any] = {"content": b'{"a":1}', "headers": {**JSON, "Idempotency-Key": "k1"}}
    first = http.post(f"/topics/{name}", **words)
    again = http.post(f"/topics/{name}", **words)
    assert said(first, 200) == said(again, 200)
    assert first.headers["headwater-position"] == again.headers["headwater-position"]
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"
    other = http.post(f"/topics/{name}", content=b'{"a":2}', headers=words["headers"])
    assert "something else" in said(other, 422)["detail"]
    elsewhere = topic()
    assert "idempotent-replay" not in http.post(f"/topics/{elsewhere}", **words).headers
    assert values(log, name) == [b'{"a":1}']
    said(http.post(f"/topics/{name}", json=1, headers={"Idempotency-Key": "k" * 300}), 400)
    said(http.post(f"/topics/{name}", json=1, headers={"Idempotency-Key": ""}), 400)


def test_cloud_events_of_the_sdk_come_back_from_the_log_as_they_were(
    http: httpx.Client, log: Log, topic: Make
):
    name = topic()
    attributes = {"type": "order.paid", "source": "/shop", "id": "7", "partitionkey": "c1"}
    event = CloudEvent({**attributes, "subject": "caf\u00e9", "specversion": "1.0"}, {"total": 12})
    for message in (ce_http.to_binary_event(event), ce_http.to_structured_event(event)):
        answer = http.post(f"/topics/{name}", content=message.body, headers=message.headers)
        assert said(answer, 200)["topic"] == name
    for record in records(log, name):
        assert record.key() == b"c1"
        said_by = ce_kafka.KafkaMessage(headers(record), record.key(), record.value() or b"")
        found = ce_kafka.from_kafka_event(said_by)
        assert found.get_data() == {"total": 12}
        assert (found.get_id(), found.get_subject()) == ("7", "caf\u00e9")


def test_a_batch_of_cloud_events_is_a_record_each(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    event = {"specversion": "1.0", "source": "s", "type": "t"}
    batch = [{**event, "id": str(number)} for number in range(3)]
    kind = {"Content-Type": "application/cloudevents-batch+json"}
    answer = http.post(f"/topics/{name}", content=json.dumps(batch), headers=kind)
    assert said(answer, 200)["records"] == 3
    assert [json.loads(value or b"")["id"] for value in values(log, name)] == ["0", "1", "2"]
    bad = http.post(f"/topics/{name}", content=json.dumps([*batch, event]), headers=kind)
    assert "event 3" in said(bad, 400)["detail"]
    assert len(values(log, name)) == 3


def test_gzip_is_unpacked_and_its_bombs_are_refused(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    packed = {**NDJSON, "Content-Encoding": "gzip"}
    two = gzip.compress(b"1\n") + gzip.compress(b"2\n")
    said(http.post(f"/topics/{name}", content=two, headers=packed), 200)
    assert values(log, name) == [b"1", b"2"]
    bomb = gzip.compress(bytes(17 * 1024**2))
    said(http.post(f"/topics/{name}", content=bomb, headers=packed), 413)
    for broken in (b"1\n", two[:-3], b"\x1f\x8b"):
        said(http.post(f"/topics/{name}", content=broken, headers=packed), 400)
    brotli = http.post(f"/topics/{name}", content=b"1", headers={"Content-Encoding": "br"})
    said(brotli, 415)


def test_traces_go_on_with_the_records(http: httpx.Client, log: Log, topic: Make):
    name = topic()
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=1"}
    http.post(f"/topics/{name}", json=1, headers=trace)
    http.post(f"/topics/{name}", content=b"1\n2\n", headers={**NDJSON, **trace})
    http.post(f"/topics/{name}", json=1, headers={"traceparent": "nonsense"})
    found = [headers(record) for record in records(log, name)]
    assert found == [{name: text.encode() for name, text in trace.items()}] * 3 + [{}]


@pytest.mark.parametrize("where", ["key", "tracestate"])
def test_what_is_said_once_for_many_lines_is_bounded_by_what_it_comes_to(
    http: httpx.Client, topic: Make, log: Log, where: str
):
    """20 KB of a request were gigabytes of records, in memory, before the log saw one of them."""
    name, trace = topic(), {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"}
    words = {**NDJSON, "headwater-key": "a" * 20_000}
    if where == "tracestate":
        words = {**NDJSON, **trace, "tracestate": "a" * 20_000}
    answer = http.post(f"/topics/{name}", content=b"1\n" * 7000, headers=words)
    assert "for each of 7000 records are too much" in said(answer, 413)["detail"]
    assert records(log, name) == []
    http.post(f"/topics/{name}", content=b"1\n" * 10, headers=words).raise_for_status()


@pytest.mark.parametrize(
    ("query", "said_of_it"),
    [
        ("keyfield=id", "did you mean 'key_field'"),
        ("partial=perhaps", "true or false"),
        ("key_field=", "empty"),
        (f"key_field={'a' * 1001}", "longer than 1000 letters or 32 names"),
        (f"key_field={'.' * 32}", "longer than 1000 letters or 32 names"),
        ("key=a&key=b", "twice"),
        ("key=%FF", "UTF-8"),
    ],
)
def test_a_misspelt_query_is_told(http: httpx.Client, topic: Make, query: str, said_of_it: str):
    answer = http.post(f"/topics/{topic()}?{query}", json={"id": 1})
    assert said_of_it in said(answer, 400)["detail"]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/topics/nowhere", 404), ("/topics/__consumer_offsets", 403), ("/topics/a%2Fb", 404)],
)
def test_topics_that_are_not_for_writing(http: httpx.Client, path: str, status: int):
    said(http.post(path, json=1), status)


def test_forms_and_nonsense_are_told_what_to_say_instead(http: httpx.Client, topic: Make):
    name = topic()
    form = http.post(f"/topics/{name}", data={"a": "1"})
    assert "application/json" in said(form, 415)["detail"]
    for kind in ("json", "application/cloudevents+avro", "a b/c"):
        said(http.post(f"/topics/{name}", content=b"1", headers={"Content-Type": kind}), 415)
    said(http.post(f"/topics/{name}", content=b"{", headers=JSON), 400)


def test_a_record_that_the_topic_refuses_is_the_senders_mistake(http: httpx.Client, topic: Make):
    small = topic(max_message_bytes=1000)
    said(http.post(f"/topics/{small}", content=os.urandom(5000)), 400)
    compacted = topic(cleanup_policy="compact")
    assert "key" in said(http.post(f"/topics/{compacted}", json=1), 400)["hint"]
    said(http.post(f"/topics/{compacted}", json=1, params={"key": "k"}), 200)


def test_what_does_not_fit_the_topics_schema_is_refused_with_the_place(
    log: Log, topic: Make, tmp_path: Path
):
    name = topic()
    schema = tmp_path / "order.json"
    schema.write_text('{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}')
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    kind = {"Content-Type": "application/cloudevents+json"}
    with (
        edges(log.bootstrap, {"topics": {name: {"schema": str(schema)}}}) as running,
        httpx.Client(base_url=running.url, timeout=60) as http,
    ):
        path = f"/topics/{name}"
        said(http.post(path, json={"id": 1}), 200)
        assert "/id" in said(http.post(path, json={"id": "x"}), 422)["detail"]
        lines = b'{"id":1}\n{}\n{"id":3}\n'
        found = said(http.post(path, content=lines, headers=NDJSON), 422)
        assert [each["line"] for each in found["lines"]] == [2]
        partly = http.post(path, params={"partial": "true"}, content=lines, headers=NDJSON)
        assert said(partly, 200)["records"] == 2
        good = http.post(path, content=json.dumps({**event, "data": {"id": 4}}), headers=kind)
        said(good, 200)
        said(http.post(path, content=json.dumps({**event, "data": {}}), headers=kind), 422)
        said(http.post(path, content=json.dumps(event), headers=kind), 422)
        said(http.post(path, content=b"1"), 415)
    assert len(values(log, name)) == 4


@pytest.mark.parametrize("words", [{"key": "a"}, {"key_field": "id"}])
def test_a_request_brings_only_so_many_records_that_are_handled_one_by_one(
    http: httpx.Client, topic: Make, log: Log, words: dict[str, str]
):
    name = topic()
    many = b'{"id": 1}\n' * 100_001
    answer = http.post(f"/topics/{name}", params=words, content=many, headers=NDJSON)
    assert "more than 100000" in said(answer, 413)["detail"]
    assert records(log, name) == []


@pytest.mark.parametrize("cut", [1000, 60, 1])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_that_wishes_for_http_2_is_stored_with_its_body(
    log: Log, topic: Make, cut: int, chunked: bool
):
    """As Java's own client asks by default: to take its body for another protocol stored empty records."""
    name, body = topic(), b'{"id": 7}'
    framed = b"9\r\n" + body + b"\r\n0\r\n\r\n" if chunked else body
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = (
        f"POST /topics/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n{length}\r\n"
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n\r\n"
    )
    asked = (head.encode() + framed) * 2  # the second on the same connection
    with edges(log.bootstrap, {}) as running:
        place = running.url.removeprefix("http://").split(":")
        with socket.create_connection((place[0], int(place[1])), timeout=60) as connection:
            for begin in range(0, len(asked), cut):
                connection.sendall(asked[begin : begin + cut])
            said = b""
            while said.count(b'"offset":1') < 1:
                some = connection.recv(4096)
                assert some, said
                said += some
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert values(log, name) == [body, body]


def test_any_number_of_requests_behind_each_other_may_wish_for_http_2(
    log: Log, caplog: pytest.LogCaptureFixture
):
    """Each was read within the one before, until there was no stack left and the log was full of it."""
    many = 1500
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    with edges(log.bootstrap, {}) as running:
        place = running.url.removeprefix("http://").split(":")
        with socket.create_connection((place[0], int(place[1])), timeout=60) as connection:
            connection.sendall(one * many)
            said = b""
            while said.count(b'{"ok":true}') < many:
                some = connection.recv(65536)
                assert some, said[-500:]
                said += some
    assert said.count(b"HTTP/1.1 200 OK") == many
    assert [each for each in caplog.records if each.exc_info] == []


def test_a_tunnel_is_refused_and_the_connection_closed(log: Log):
    """CONNECT is always a wish for another protocol: read without its wishes it was read again and again."""
    with edges(log.bootstrap, {}) as running:
        place = running.url.removeprefix("http://").split(":")
        for head in ("", "Upgrade: h2c\r\nConnection: Upgrade\r\n"):
            with socket.create_connection((place[0], int(place[1])), timeout=60) as connection:
                connection.sendall(
                    f"CONNECT foo:80 HTTP/1.1\r\nHost: foo\r\n{head}\r\nrest".encode()
                )
                said = b""
                while some := connection.recv(4096):
                    said += some
            assert said.startswith(b"HTTP/1.1 400 Bad Request"), said


EVENT = b'{"specversion":"1.0","id":"1","source":"a","type":"b"}'


@pytest.mark.parametrize(
    ("kind", "body", "more", "status"),
    [
        ("x-ndjson", b"\n" * 500_001, {}, 413),
        ("x-ndjson", b"1\n" * 100_001, {"Idempotency-Key": "many"}, 413),
        ("x-ndjson", b"x\n" * 100_001, {}, 413),
        ("cloudevents-batch+json", b"[" + b",".join([EVENT] * 100_001) + b"]", {}, 413),
        ("cloudevents-batch+json", b"[" + b",".join([b"{}"] * 100_001) + b"]", {}, 400),
    ],
    ids=["lines", "under a key", "that are no good", "events", "that are no events"],
)
def test_so_many_small_records_are_no_request(
    http: httpx.Client, topic: Make, kind: str, body: bytes, more: dict[str, str], status: int
):
    """Each would take a hundred times its bytes in memory, and everybody's time."""
    path = f"/topics/{topic()}"
    headers = {"Content-Type": f"application/{kind}", **more}
    refused = http.post(path, params={"partial": "true"}, content=body, headers=headers)
    assert refused.status_code == status, refused.text
    assert len(refused.content) < 1000
    assert http.get(path).json()["records"] == []
