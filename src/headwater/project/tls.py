"""TLS of the edges and of the console: by the broker's settings, with new certificates and no restart.

Called by both servers, and by `file` and `edges.config` for what may be written.

    [edges]  tls = true                                  the ssl.* of [log.settings], as the broker has them
    [edges.tls]  "ssl.client.auth" = "required"          the same, and these instead of or beside them

`[console]` alike. The files are looked at every few seconds and read anew where they have changed:
connections from then on get the new certificate. Files that cannot be used are named in the log, and the old
stay. Who signs clients' certificates can be added so, and not be taken away: that takes a restart.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.secrets import expand

PREFIX = "ssl."
LOOK_S = 5.0
_FILES = ("ssl.keystore.location", "ssl.truststore.location")
_log = logging.getLogger("headwater.tls")


def complaint(value: object) -> str | None:
    """What is wrong with `tls`, in words that follow `tls = …`; None: nothing."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, Mapping):
        return "is neither true nor a section with the broker's settings ssl.…"
    if not value:
        return "is empty, which is no TLS: write tls = true, or a setting ssl.…"
    for name, each in value.items():
        if not name.startswith(PREFIX) or not isinstance(each, str):
            return f'has {name!r}, which is no setting as in "ssl.keystore.location" = "server.pem"'
    return None


def settings_of(said: object, log: Mapping[str, str]) -> dict[str, str] | None:
    """The broker's settings for `tls`, with those of [log.settings]; None: there is no TLS."""
    if not said:
        return None
    own = {name: value for name, value in log.items() if name.startswith(PREFIX)}
    return own | {str(k): str(v) for k, v in (said if isinstance(said, Mapping) else {}).items()}


def certificates(said: object, log: Mapping[str, str], name: str) -> Certificates | None:
    """Those for `tls` of the section `name`; None: there is no TLS."""
    given = settings_of(said, log)
    return None if given is None else Certificates(given, name)


class Certificates:
    """What a server shows, and asks for. Raises HeadwaterError with what is wrong with the files."""

    def __init__(self, given: Mapping[str, str], name: str) -> None:
        from headwater.broker.security.listeners import Listener
        from headwater.broker.settings import Settings

        self._settings = Settings({key: expand(value) for key, value in given.items()})
        self._listener = Listener(name, "SSL", "", 0)
        self._paths = [Path(given[each]) for each in _FILES if each in given]
        self._seen = self._looked()
        self.context = self._made()

    def _made(self) -> ssl.SSLContext:
        from headwater.broker.security import tls

        return tls.context(self._settings, self._listener)

    def watch(self) -> None:
        """From the server's event loop."""
        asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self.renew()
        self.watch()

    def renew(self) -> bool:
        """Read the files anew if they have changed; whether they were taken."""
        seen = self._looked()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self._made()  # as a whole, before anything is changed
        except HeadwaterError as error:
            _log.error("new certificates of the %s are not taken: %s", self._listener.name, error)
            return False
        from headwater.broker.security import tls

        tls.renew(self.context, self._settings, self._listener)
        _log.warning("the %s have new certificates", self._listener.name)
        return True

    def _looked(self) -> list[tuple[int, int, int] | None]:
        return [_state(path) for path in self._paths]


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # while it is being replaced
    return found.st_mtime_ns, found.st_size, found.st_ino
