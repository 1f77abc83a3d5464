"""Requests made up from the interface's own description: no 5xx, and no answer that it does not describe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import schemathesis.specs.openapi.schemas  # while no other thread imports: pytest parses it then
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headwater.client.log import Log
from headwater.project.file import Project, load
from headwater.testing.targets import Writer, shape
from headwater.views.targets.registry import target_for
from tests.edges.running import edges

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
EXAMPLES = 300 if SOAK else 12
"""Of each operation, and as many again that are wrong on purpose."""
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
PIPELINES = """
import headwater as hw
@hw.view("rows", key=["id"], to="sqlite:rows.db")
def rows():
    raise AssertionError("no query is run here")
@hw.view("words", key=["id"], to="search:words")
def words():
    raise AssertionError("no query is run here")
"""


@schemathesis.serializer("application/x-ndjson")
def as_it_is(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two views with a few rows each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "views.py").write_text(PIPELINES)
    (tmp_path / "headwater.toml").write_text("")
    for view, to in (("rows", "sqlite:rows.db"), ("words", "search:words")):
        Writer(target_for(to, shape(view=view))).write(
            0, [(n, f"name {n}", n / 2) for n in range(9)]
        )
    return load(tmp_path / "headwater.toml")


@pytest.mark.timeout(3600 if SOAK else 900)
def test_whatever_is_sent_is_answered_as_described(
    log: Log, topic: Callable[..., str], project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FUZZ_SECRET", "correct horse")
    hook = {"topic": topic(), "style": "token", "secret": "${FUZZ_SECRET}"}
    names = {
        "topic": [topic(2), topic(cleanup_policy="compact"), "nowhere", "__own"],
        "hook": ["gate", "nowhere"],
        "view": ["rows", "words", "nowhere"],
        "key": ["1", "77", "no number", "\x00/é"],
        "topic_name": [topic(2), topic(cleanup_policy="compact"), "nowhere", "__own"],
        "partition_id": ["0", "7"],
        "cluster_id": [cluster_of(log)] * 9 + ["elsewhere"],
        "name": ["retention.ms", "nonsense", "fuzzed"],
        "delivery": ["nowhere-0-0", "\x00"],
        "group": ["fuzzed", "nobody"],
        "instance": ["fuzzer", "nowhere"],
    }
    monkeypatch.setenv("FUZZ_KEY", "correct horse battery staple, twice")
    document = {
        "hooks": {"gate": hook},
        "limits": {"consumers": 3, "consumers_per_token": 2},
        "subscriptions": {"key": "${FUZZ_KEY}", "allow_private": True, "most": 2},
    }
    with (
        edges(log.bootstrap, document, project) as running,
        requests.Session() as session,
    ):
        open_consumer(session, running.url, names["topic_name"][0])
        subscribe(session, running.url, names["topic_name"][0])
        described = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        operations = [found.ok() for found in described.get_all_operations()]
        # What deletes comes last: the others would find nothing there.
        operations.sort(key=lambda operation: operation.method.upper() == "DELETE")
        assert ("POST", "/topics/{topic}") in {(op.method.upper(), op.path) for op in operations}
        for operation in operations:
            print(operation.label)  # which one it was, where one fails
            fuzz(operation, session, names)


def cluster_of(log: Log) -> str:
    return str(log.admin.list_topics(timeout=60).cluster_id)


def open_consumer(session: requests.Session, url: str, topic: str) -> None:
    """Which the made-up requests find, and whose records they do not wait for."""
    made = session.post(f"{url}/consumers/fuzzed", json={"name": "fuzzer"}, timeout=60)
    path = f"{made.json()['base_uri']}/subscription"
    assert session.post(path, json={"topics": [topic]}, timeout=60).status_code == 204


def subscribe(session: requests.Session, url: str, topic: str) -> None:
    """To a receiver that is not there."""
    new = {"name": "fuzzed", "topic": topic, "to": "http://127.0.0.1:9/", "paused": True}
    assert session.post(f"{url}/webhooks", json=new, timeout=60).status_code == 201


def fuzz(operation: Any, session: requests.Session, names: dict[str, list[str]]) -> None:
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    for cases in [operation.as_strategy(), *([wrong] if can_be_wrong(operation) else [])]:

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(cases, st.data())
        def one(case: schemathesis.Case, data: st.DataObject) -> None:
            for name, known in names.items():
                if name in (case.path_parameters or {}):
                    case.path_parameters[name] = data.draw(st.sampled_from(known))
            if isinstance(case.body, dict) and isinstance(case.body.get("partitions_count"), int):
                case.body["partitions_count"] %= 3  # each is files on the disk
            if "timeout" in (case.query or {}) and operation.path.startswith("/consumers/"):
                case.query["timeout"] = 0  # or it would wait for records that nobody sends
            check(case, session)

        one()


def can_be_wrong(operation: Any) -> bool:
    """Whether there is anything but the names above that a request could have wrong."""
    has_body = bool(operation.body) and not operation.path.startswith("/hooks/")
    return bool(operation.query or operation.headers or has_body)


def check(case: schemathesis.Case, session: requests.Session) -> None:
    with session.request(**case.as_transport_kwargs(), stream=True, timeout=60) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert answer.status_code == 200  # it has no end
        else:
            found = schemathesis.Response.from_requests(answer, verify=True)
            case.validate_response(found, checks=CHECKED)
