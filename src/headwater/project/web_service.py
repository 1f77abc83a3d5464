"""What the edges, the registry and the console have alike before they serve: their project, the packages that
they need, where they may listen, and the socket.

Called by the `serve` of each; `http_server` then runs uvicorn on that socket.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError, missing_package
from headwater.log.descriptors import raise_limit
from headwater.project import ports
from headwater.project.file import FILE, Project, load

BACKLOG = 2048


class CannotServe(HeadwaterError):
    """It cannot listen there, or may not, or lacks a package."""


@dataclass(frozen=True)
class WebService:
    """One of them, by the words that people know it by."""

    who: str
    """In a sentence: `the console`."""
    section: str
    """Of headwater.toml, and the extra that brings its packages."""

    @contextmanager
    def imports(self) -> Iterator[None]:
        """Around what it imports: raises CannotServe for a package that is not installed."""
        try:
            yield
        except ModuleNotFoundError as error:
            raise CannotServe(
                f"{self.who} cannot start without the package {missing_package(error)}",
                hint=f"pip install 'headwater[{self.section}]'",
            ) from None

    @contextmanager
    def bound(self, host: str, port: int, slow_s: float) -> Iterator[socket.socket]:
        """A listening socket, of a process that may open as many files as it is allowed to. Raises
        CannotServe."""
        raise_limit()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise CannotServe(
                f"{self.who} cannot listen at {host}:{port}: {error.strerror or error}",
                hint=f"give another address with --listen, or listen = … under [{self.section}]",
            ) from None
        with listener:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # those accepted, too
            if patience := getattr(socket, "TCP_USER_TIMEOUT", None):
                # The kernel ends connections of clients that take nothing: asyncio would wait for ever.
                listener.setsockopt(socket.IPPROTO_TCP, patience, int(slow_s * 1000))
            yield listener


def place(listen: str, refusal: CannotServe | None) -> tuple[str, int]:
    """Host and port; raises `refusal`, where there is one, beyond this machine."""
    try:
        host, port = ports.split(listen)
    except ValueError as error:
        raise CannotServe(str(error)) from None
    if refusal is not None and not ports.is_loopback(host):
        raise refusal
    return host, port


def project_at(path: Path | None) -> Project | None:
    """The one that is named; else the one in this folder, if there is one."""
    if path is not None:
        return load((path / FILE if path.is_dir() else path).absolute())
    here = Path(FILE).absolute()
    return load(here) if here.exists() else None
