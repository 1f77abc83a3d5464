"""The box office over HTTP: python examples/seats/api.py [--port 8000]

POST /seats/hamlet/A1    {"by": "ann", "card": "4000"}    200 held, or 409 taken
GET  /seats/hamlet/A1    {"status": "free" | "held" | "sold", "by": …}
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import uvicorn
from hall import Hold, Seat, confirming, paying, payments, seats
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headwater.events import Accepted, Application, Reader, Saga

BOOTSTRAP = os.environ.get("HEADWATER_BOOTSTRAP", "127.0.0.1:9092")


@asynccontextmanager
async def lifespan(api: Starlette) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        office = await enter(Application(seats, BOOTSTRAP, partitions=4))
        bank = await enter(Application(payments, BOOTSTRAP, partitions=4))
        both = [office, bank]
        await enter(Saga("paying", seats, paying, both, BOOTSTRAP))
        await enter(Saga("confirming", payments, confirming, both, BOOTSTRAP))
        api.state.office = office
        yield


async def reserve(request: Request) -> JSONResponse:
    body = await request.json()
    seat = f"{request.path_params['show']}/{request.path_params['seat']}"
    reservation = request.headers.get("idempotency-key") or uuid.uuid4().hex
    hold = Hold(reservation, str(body["by"]), str(body["card"]))
    office: Application[Seat] = request.app.state.office
    answer = await office.send(seat, hold, command_id=f"hold {reservation}", who=hold.by)
    if isinstance(answer, Accepted):
        return JSONResponse({"reservation": reservation, "position": str(answer.position)})
    return JSONResponse({"refused": answer.reason}, 409)


async def look(request: Request) -> JSONResponse:
    seat = f"{request.path_params['show']}/{request.path_params['seat']}"

    def read() -> Seat:
        with Reader(seats, BOOTSTRAP) as reader:
            return reader.state(seat)

    found = await asyncio.to_thread(read)
    return JSONResponse({"status": found.status, "by": found.by})


app = Starlette(
    routes=[
        Route("/seats/{show}/{seat}", reserve, methods=["POST"]),
        Route("/seats/{show}/{seat}", look),
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
