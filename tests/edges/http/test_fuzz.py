"""Requests made up from the interface's own description: no 5xx, and no answer that it does not describe."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headwater.browse.log import Log
from tests.edges.running import edges

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
EXAMPLES = 500 if SOAK else 40
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.mark.timeout(600 if SOAK else 120)
def test_whatever_is_sent_is_answered_as_described(log: Log, topic: Callable[..., str]):
    names = {"topic": [topic(2), topic(cleanup_policy="compact"), "nowhere", "__own"]}
    with edges(log.bootstrap) as running, requests.Session() as session:
        described = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        operations = [found.ok() for found in described.get_all_operations()]
        assert ("POST", "/topics/{topic}") in {(op.method.upper(), op.path) for op in operations}
        for operation in operations:
            print(operation.label)  # which one it was, where one fails
            fuzz(operation, session, names)


def fuzz(
    operation: schemathesis.engine.APIOperation,  # type: ignore[name-defined]
    session: requests.Session,
    names: dict[str, list[str]],
) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(), st.data())
    def one(case: schemathesis.Case, data: st.DataObject) -> None:
        for name, known in names.items():
            if name in (case.path_parameters or {}):
                case.path_parameters[name] = data.draw(st.sampled_from(known))
        words = case.as_transport_kwargs()
        with session.request(**words, stream=True, timeout=60) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                assert answer.status_code == 200
                return  # it has no end
            found = schemathesis.Response.from_requests(answer, verify=True)
            case.validate_response(found, checks=CHECKED)

    one()
