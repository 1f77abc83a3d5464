"""Secrets: where they come from, and texts that are shown without them.

A text names a secret as `${NAME}` (the environment) or `${file:/run/secrets/name}` (a file, read each time);
where a whole value is the secret, `file:/run/secrets/name` will do. `Secrets` follows files that change.
`expand` is called by whoever opens a connection and by nobody else: pages, records, checkpoints, logs and
command lines hold the name, or what `shown` makes of a text in which somebody wrote the secret itself.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headwater.errors import HeadwaterError

_NAMED = re.compile(r"\$\{(?:file:([^{}]+)|(\w+))\}")
_WHOLE = re.compile(r"(?:\$\{(?:file:[^{}]+|\w+)\}|file:/.+)", re.DOTALL)
_LOGIN = re.compile(r"(?<=://)(?P<user>[^/@:]*):(?P<secret>.*)@(?=[^@]*$)")
_PARAMETER = re.compile(r"(?i)((?:password|passwd|secret|token)=)([^&;\s]+)")
_SENSITIVE = re.compile(r"(?i)password|passwd|secret|token|jaas|credential|\.key$")
FILE_BYTES_MAX = 64 * 1024
LOOK_S = 2.0
"""Between two looks at whether a file has changed."""
_log = logging.getLogger("headwater.secrets")
HIDDEN = "***"


class MissingSecret(HeadwaterError):
    """A name without a secret behind it; an empty one is as good as none."""


def expand(text: str) -> str:
    """With the secrets in place of their names."""
    if text.startswith("file:/"):
        return _of_file(text[len("file:") :])
    return _NAMED.sub(
        lambda found: _of_file(found[1]) if found[1] else _of_variable(found[2]), text
    )


def not_empty(secret: str, what: str) -> str:
    """As it is: an empty one would let in whoever says nothing. Raises MissingSecret."""
    if not secret.strip():
        raise MissingSecret(
            f"{what} is empty", hint="give one that nobody guesses, or leave it out"
        )
    return secret


class Secrets:
    """Secrets by their names, in the order given: those in files are read again when these change.

    A file that has none any more is told in the log, and the last that it had stays. Raises MissingSecret.
    """

    def __init__(self, named: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._named = tuple(named)
        self._clock = clock
        self._files = [each for text in self._named for each in files_of(text)]
        self._seen = [_state(each) for each in self._files]
        self._found = tuple(not_empty(expand(each), "a secret") for each in self._named)
        self._looked_at = clock()

    def __iter__(self) -> Iterator[str]:
        return iter(self.now())

    @property
    def can_change(self) -> bool:
        return bool(self._files)

    def now(self) -> tuple[str, ...]:
        if self._files and self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._look()
        return self._found

    def _look(self) -> None:
        seen = [_state(each) for each in self._files]
        if seen == self._seen:
            return
        try:
            self._found, self._seen = tuple(map(expand, self._named)), seen
        except MissingSecret as error:
            _log.error("%s; what was there is used on", error.sentence)


def files_of(text: str) -> list[str]:
    """The files that it names secrets in."""
    if text.startswith("file:/"):
        return [text[len("file:") :]]
    return [found[1] for found in _NAMED.finditer(text) if found[1]]


def is_reference(text: str) -> bool:
    """Whether all of it is the name of a secret."""
    return _WHOLE.fullmatch(text) is not None


def names_one(text: str) -> bool:
    """Whether it has the name of a secret in it."""
    return _NAMED.search(text) is not None


def is_sensitive(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SENSITIVE.search(name) is not None


def shown(text: str) -> str:
    """Of an address: without what somebody wrote into it instead of a name."""
    login = _LOGIN.sub(lambda found: f"{found['user']}:{_masked(found['secret'])}@", text)
    return _PARAMETER.sub(lambda found: found[1] + _masked(found[2]), login)


def are_alike(one: str, other: str) -> bool:
    """Whether two addresses are the same but for their secrets, or for how these are named."""
    return _bare(one) == _bare(other)


class Environment(dict[str, str]):
    """For a process to be started: secrets that must not stand among its words, which `ps` shows.

    The process has to `expand` the names that it is given instead.
    """

    def address(self, text: str) -> str:
        """Without the secrets that somebody wrote into it."""
        login = _LOGIN.sub(lambda found: f"{found['user']}:{self._named(found['secret'])}@", text)
        return _PARAMETER.sub(lambda found: found[1] + self._named(found[2]), login)

    def setting(self, name: str, value: object) -> str:
        """NAME=VALUE, where the name does not say that it is a secret."""
        return f"{name}={self._named(str(value)) if is_sensitive(name) else value}"

    def _named(self, secret: str) -> str:
        if not secret or is_reference(secret) or names_one(secret):
            return secret  # what it names is expanded once, by the process that is started
        name = f"HEADWATER_SECRET_{len(self) + 1}"
        self[name] = secret
        return f"${{{name}}}"


def _bare(text: str) -> str:
    login = _LOGIN.sub(lambda found: f"{found['user']}:{HIDDEN}@", text)
    return _PARAMETER.sub(lambda found: found[1] + HIDDEN, login)


def _masked(secret: str) -> str:
    return secret if not secret or _NAMED.fullmatch(secret) else HIDDEN


def _of_variable(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise MissingSecret(f"the environment has no {name}", hint=f"set it: export {name}=…")
    if not found.strip():
        raise MissingSecret(f"{name} is empty in the environment", hint=f"set it: export {name}=…")
    return found


def _state(name: str) -> tuple[int, int, int] | None:
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _of_file(name: str) -> str:
    path = Path(name)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        found = data.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise MissingSecret(
            f"the file {name}, which holds a secret, cannot be read: {why}",
            hint=f"put the secret there, and nothing else: chmod 600 {name}",
        ) from error
    if not found.strip() or len(data) > FILE_BYTES_MAX:
        raise MissingSecret(
            f"the file {name} holds no secret: it is {'too large' if found.strip() else 'empty'}",
            hint="put the secret there, and nothing else",
        )
    return found
