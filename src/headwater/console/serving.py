"""From words to a listening console: checks what may be listened to, binds, serves until told to stop.

Called by `headwater console`.
"""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.console import addresses
from headwater.console.context import Context
from headwater.console.sessions import Sessions
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    import uvicorn

STOP_S = 3


class CannotServe(HeadwaterError):
    """The console cannot listen there, or may not."""


def serve(context: Context, listen: str, token: str | None, say: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT."""
    host, port = _checked(listen, token)
    with _bound(host, port) as listener:
        server = _server(context, token, loopback_only=addresses.is_loopback(host))
        say(f"the console is at {addresses.url_of(host, listener.getsockname()[1])}")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: setattr(server, "should_exit", True))
        server.run(sockets=[listener])


def _checked(listen: str, token: str | None) -> tuple[str, int]:
    try:
        host, port = addresses.split(listen)
    except ValueError as error:
        raise CannotServe(str(error)) from None
    if token is None and not addresses.is_loopback(host):
        raise CannotServe(
            f"without a token the console listens on this machine only, and {host} is more than that",
            hint="set HEADWATER_CONSOLE_TOKEN, or listen at 127.0.0.1",
        )
    return host, port


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise CannotServe(
            f"the console cannot listen at {host}:{port}: {error.strerror or error}",
            hint="give another address with --listen, or listen = … under [console]",
        ) from None
    with listener:
        yield listener


def _server(context: Context, token: str | None, *, loopback_only: bool) -> uvicorn.Server:
    try:
        import uvicorn

        from headwater.console.app import make_app
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("headwater"):
            raise
        raise CannotServe(
            f"the console needs the package {error.name}, which is not installed",
            hint="pip install 'headwater[console]'",
        ) from None

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # uvicorn's own would end the process by the signal again

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    app = make_app(context, Sessions(token) if token else None, loopback_only=loopback_only)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=STOP_S, lifespan="on"
    )
    return Server(config)
