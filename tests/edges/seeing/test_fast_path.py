"""What goes past FastAPI, and what does not; and that it is answered in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import NotThere
from headwater.edges.fast_path import FastPath


def application() -> FastPath:
    slow = FastAPI()

    @slow.api_route("/{path:path}", methods=["GET", "POST", "PUT"])
    async def anything(path: str) -> dict[str, str]:
        return {"by": "FastAPI", "path": path}

    async def quick(request: Request, topic: str) -> Response:
        if topic == "missing":
            raise NotThere("there is no topic 'missing'", hint="make it")
        if topic == "large":
            raise HTTPException(413, "too much")
        return Response(f"{topic}: {len(await request.body())}")

    return FastPath(slow, quick)


@pytest.fixture
def ask() -> Callable[..., Any]:
    async def asked(method: str, path: str, **words: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=application())
        async with httpx.AsyncClient(transport=transport, base_url="http://edges") as client:
            return await client.request(method, path, **words)

    return asked


async def test_a_post_to_a_topic_goes_past(ask: Callable[..., Any]):
    assert (await ask("POST", "/topics/orders", content=b"12345")).text == "orders: 5"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/topics/orders"),
        ("POST", "/topics/"),
        ("POST", "/topics/a/b"),
        ("POST", "/hooks/orders"),
        ("PUT", "/topics/orders"),
    ],
)
async def test_all_else_does_not(ask: Callable[..., Any], method: str, path: str):
    assert (await ask(method, path)).json()["by"] == "FastAPI"


async def test_errors_are_problems_here_too(ask: Callable[..., Any]):
    answer = await ask("POST", "/topics/missing")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "there is no topic 'missing'"
    assert answer.headers["content-type"] == "application/problem+json"
    answer = await ask("POST", "/topics/large")
    assert (answer.status_code, answer.json()["detail"]) == (413, "too much")
