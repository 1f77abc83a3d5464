"""Connections to receivers: to an address that was looked at, and to no other.

Called by httpcore for each new connection; `addresses` says which may be called. TLS still goes by the
name: certificates are checked against it. Proxies of the environment are not used, redirects not followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore

from headwater.edges.webhooks.addresses import resolved


class Guarded(httpcore.AsyncNetworkBackend):
    """Resolves a name, refuses what may not be called, connects to what was resolved."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await resolved(host, port, allow_private=self._allow_private):
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
