"""Where requests arrive nothing is done that grows with what is registered: it gets a thread."""

from __future__ import annotations

import asyncio
import json

import pytest

from headwater.edges.registry import routes
from headwater.edges.registry.call import ForAThread, parsed, schema_json
from headwater.edges.workers import LARGE_BYTES
from headwater.schemas.model import Schema

LARGE = json.dumps({"properties": {"note": "x" * LARGE_BYTES}})
ONE_THING = {"/", "/healthz", "/v1/metadata/id", "/v1/metadata/version", "/schemas/types",
             "/schemas/ids/{id}", "/schemas/ids/{id}/schema", "/schemas/guids/{guid}",
             "/subjects/{subject}/versions/{version}", "/subjects/{subject}/versions/{version}/schema",
             "/config", "/config/{subject}", "/mode", "/mode/{subject}"}  # fmt: skip


def test_what_is_asked_where_requests_arrive_is_one_thing():
    assert {path for _, path, _, where in routes._TABLE if where == routes.LOOP} == ONE_THING


def test_large_metadata_is_not_parsed_where_requests_arrive():
    schema = Schema('"string"', metadata=LARGE)

    async def asked(small: str) -> object:
        with pytest.raises(ForAThread):
            schema_json(schema)
        assert parsed(small) == {}
        return await asyncio.to_thread(schema_json, schema)

    assert asyncio.run(asked("{}")) == schema_json(schema)


def test_large_metadata_comes_back(registry: str):
    import httpx

    body = {"schema": '"string"', "metadata": json.loads(LARGE)}
    made = httpx.post(f"{registry}/subjects/metadata-large/versions", json=body).json()
    for path in (f"schemas/ids/{made['id']}", "subjects/metadata-large/versions/1"):
        assert httpx.get(f"{registry}/{path}").json()["metadata"] == body["metadata"]
