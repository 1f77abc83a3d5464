"""Edges with tokens of several scopes, and clients that show one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from headwater.client.log import Log
from tests.edges.running import edges

SECRETS = {name: f"{name} correct horse battery" for name in ("ann", "bob", "dan", "eve")}
TOKENS = {
    "ann": {"read": ["*", "group:*"], "write": ["*"], "admin": ["*"]},
    "bob": {"read": ["*", "group:bob-*"], "write": ["t*"]},
    "dan": {"read": ["*", "g*"]},
    "eve": {"read": ["nothing", "group:half-seen"]},
}
Clients = Callable[[str], httpx.Client]


@pytest.fixture(scope="module")
def client(log: Log) -> Iterator[Clients]:
    """`client("ann")`."""
    for name, secret in SECRETS.items():
        os.environ[f"REST_{name.upper()}"] = secret
    tokens = {
        name: {**scopes, "secret": f"${{REST_{name.upper()}}}"} for name, scopes in TOKENS.items()
    }
    limits = {"consumers": 4, "consumers_per_token": 2}
    with (
        edges(log.bootstrap, {"tokens": tokens, "limits": limits}) as running,
        ExitStack() as open_ones,
    ):

        def made(name: str) -> httpx.Client:
            headers = {"Authorization": f"Bearer {SECRETS[name]}"}
            found = httpx.Client(base_url=running.url, headers=headers, timeout=60)
            return open_ones.enter_context(found)

        yield made
    for name in SECRETS:
        del os.environ[f"REST_{name.upper()}"]


@pytest.fixture(scope="module")
def cluster(client: Clients) -> str:
    """The path of the cluster."""
    (found,) = client("ann").get("/v3/clusters").json()["data"]
    return f"/v3/clusters/{found['cluster_id']}"
