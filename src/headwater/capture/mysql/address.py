"""Where a MariaDB or MySQL server is and who we are there: the `from` of a capture, read once.

Called by `source`; `connection` opens what it names.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.capture.errors import Misconfigured

_PARAMETERS = {"ssl-mode", "ssl-ca", "ssl-cert", "ssl-key"}


@dataclass(frozen=True)
class Address:
    """Where the server is and who we are there; from the capture's `from`."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    tls: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, url: str) -> Address:
        parts = urlsplit(url)
        database = unquote(parts.path.lstrip("/"))
        if not parts.hostname or not database or "/" in database:
            raise Misconfigured(
                "the address of the server names no host or no database",
                hint="write it as mariadb://user:password@host:3306/database",
            )
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in sorted(set(given) - _PARAMETERS):
            raise Misconfigured(
                f"{name!r} is no parameter of a MariaDB or MySQL address",
                hint=f"use one of {', '.join(sorted(_PARAMETERS))}",
            )
        mode = given.get("ssl-mode")
        if mode not in (None, "disabled", "required", "verify-ca", "verify-identity"):
            raise Misconfigured(
                f"ssl-mode {mode!r} is not known",
                hint="use one of disabled, required, verify-ca, verify-identity",
            )
        return cls(
            parts.hostname,
            parts.port or 3306,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            database,
            tuple(sorted(given.items())),
        )

    def tls_context(self) -> ssl.SSLContext | None:
        given = dict(self.tls)
        mode = given.get("ssl-mode", "verify-ca" if "ssl-ca" in given else "disabled")
        if mode == "disabled":
            return None
        context = ssl.create_default_context(cafile=given.get("ssl-ca"))
        context.check_hostname = mode == "verify-identity"
        if mode == "required":
            context.verify_mode = ssl.CERT_NONE
        if "ssl-cert" in given:
            context.load_cert_chain(given["ssl-cert"], given.get("ssl-key"))
        return context
