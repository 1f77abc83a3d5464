"""The bank over HTTP: python examples/accounts/api.py [--port 8000]

    POST /accounts/alice                {"owner": "Alice"}
    POST /accounts/alice/deposits       {"amount": 10}          Idempotency-Key: any text, optional
    POST /accounts/alice/withdrawals    {"amount": 5}
    POST /accounts/alice/transfers      {"to": "bob", "amount": 3}
    GET  /accounts/alice                ?as_of=2026-11-15T15:00:00Z
    GET  /accounts/alice/history

Accepted is 200 with the version and the position; refused is 409 with the reason. Start as many as you
like: they share the accounts, and one that dies is replaced by the others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import uvicorn
from bank import Account, Deposit, Open, Transfer, Withdraw, accounts, transfers
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headwater.events import Accepted, Application, Reader, Saga

BOOTSTRAP = os.environ.get("HEADWATER_BOOTSTRAP", "127.0.0.1:9092")


@asynccontextmanager
async def lifespan(api: Starlette) -> AsyncIterator[None]:
    bank = Application(accounts, BOOTSTRAP, partitions=4)
    async with bank, Saga("transfers", accounts, transfers, [bank], BOOTSTRAP):
        api.state.bank = bank
        yield


async def command(request: Request) -> JSONResponse:
    """A POST is a command; its path says which one."""
    body = await request.json() if await request.body() else {}
    id = request.path_params["id"]
    try:
        wanted = _wanted(request.path_params.get("what", "open"), id, body)
    except (KeyError, TypeError, ValueError) as error:
        return JSONResponse({"error": f"not understood: {error!r}"}, 400)
    bank: Application[Account] = request.app.state.bank
    answer = await bank.send(
        id,
        wanted,
        command_id=request.headers.get("idempotency-key"),
        who=request.headers.get("x-user", "somebody"),
        why=str(body.get("why", "")),
    )
    if isinstance(answer, Accepted):
        said = {"version": answer.version, "position": str(answer.position)}
        return JSONResponse({**said, "repeated": answer.repeated})
    return JSONResponse({"refused": answer.reason}, 409)


def _wanted(what: str, id: str, body: dict[str, Any]) -> Any:
    match what:
        case "open":
            return Open(str(body["owner"]))
        case "deposits":
            return Deposit(int(body["amount"]))
        case "withdrawals":
            return Withdraw(int(body["amount"]))
        case "transfers":
            return Transfer(uuid.uuid4().hex, str(body["to"]), int(body["amount"]))
    raise ValueError(what)


async def account(request: Request) -> JSONResponse:
    """Any process can read any account: states follow from the log."""
    id, as_of = request.path_params["id"], request.query_params.get("as_of")

    def read() -> Account:
        with Reader(accounts, BOOTSTRAP) as reader:
            if as_of is None:
                return reader.state(id)
            return reader.as_of(id, datetime.fromisoformat(as_of))

    found = await asyncio.to_thread(read)
    if found.owner is None:
        return JSONResponse({"error": "there is no such account"}, 404)
    return JSONResponse({"owner": found.owner, "balance": found.balance})


async def history(request: Request) -> JSONResponse:
    def read() -> list[str]:
        with Reader(accounts, BOOTSTRAP) as reader:
            return [str(each) for each in reader.history(request.path_params["id"])]

    return JSONResponse(await asyncio.to_thread(read))


app = Starlette(
    routes=[
        Route("/accounts/{id}", command, methods=["POST"]),
        Route("/accounts/{id}/history", history),
        Route("/accounts/{id}/{what}", command, methods=["POST"]),
        Route("/accounts/{id}", account),
    ],
    lifespan=lifespan,
)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--port", type=int, default=8000)
    listening = socket.create_server(("127.0.0.1", words.parse_args().port))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])


if __name__ == "__main__":
    main()
