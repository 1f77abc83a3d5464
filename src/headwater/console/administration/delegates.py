"""The console's connections for changes: one for each visitor, whose client id says for whom it asks.

Made by `context`, used by `administration`. To look, all pages share `Context.log`; whatever changes the log
goes through here, so that the broker's audit has the person and not only the console's own principal.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from headwater.client.log import Log
from headwater.console.sessions import NOBODY
from headwater.on_behalf import client_id

PROGRAM = "headwater-console"
LOGS_MAX = 32
"""A visitor beyond them is connected anew: those who were away for longest make room."""


class Delegates:
    """For several threads at once."""

    def __init__(self, bootstrap: str, client: Mapping[str, str]) -> None:
        self._bootstrap, self._client = bootstrap, client
        self._logs: OrderedDict[str, Log] = OrderedDict()
        self._lock = threading.Lock()

    def log_of(self, visitor: str) -> Log:
        """The log, asked in this visitor's name."""
        with self._lock:
            if visitor not in self._logs:
                self._logs[visitor] = Log(self._bootstrap, self._named(visitor))
            self._logs.move_to_end(visitor)
            gone = self._logs.popitem(last=False)[1] if len(self._logs) > LOGS_MAX else None
            found = self._logs[visitor]
        if gone is not None:
            gone.close()
        return found

    def close(self) -> None:
        with self._lock:
            logs, self._logs = list(self._logs.values()), OrderedDict()
        for each in logs:
            each.close()

    def _named(self, visitor: str) -> dict[str, str]:
        own = self._client.get("client.id", PROGRAM)
        return {
            **self._client,
            "client.id": own if visitor == NOBODY.name else client_id(own, visitor),
        }
