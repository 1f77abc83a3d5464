"""What tells one command from another: for owners, which decide an id once, and for ids of a saga's steps.

The same in every process, and for a command that went through JSON. Left out is what may differ between a
command and the same one sent again: fields that have their default (a class may have got a new one since),
and sealed texts (`personal`), which are another text each time.

Also here: the names of a saga's steps, from which their commands' ids are made; pure. `saga` calls it.

A step is named after what is sent to whom, not after its number: when a saga is mended, steps may come before
and between those that were sent already. Equal steps are told apart by counting. Earlier versions did go by
the number: what they sent is found under the former name, and not sent again.
"""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from headwater.events import models

_BYTES = 12
_SEALED = re.compile(rb'\{"sealed":"[^":\\]+:[A-Za-z0-9+/]*=*",(?="subject":"(?:[^"\\]|\\.)*"\})')
"""As `keys` writes it, in whatever field: nothing else is left out for its name."""
_encode = msgspec.json.Encoder(enc_hook=models.encode, order="deterministic").encode


def of(command: Any) -> str:
    """Empty where the command cannot be written as JSON."""
    try:
        kind: Any = type(command)
        data = msgspec.json.decode(_encode(_as_read(command)))
        if isinstance(data, dict):
            defaults = _defaults(kind)
            data = {k: v for k, v in data.items() if k not in defaults or defaults[k] != v}
        text = _encode([kind.__name__, data])
    except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
        return ""
    return blake2b(_SEALED.sub(b"{,", text), digest_size=_BYTES).hexdigest()


def _as_read(command: Any) -> Any:
    """As another process would have it: 5 in a field of type float is 5.0."""
    kind: Any = type(command)
    try:
        return _decoder(kind).decode(_encode(command))
    except msgspec.ValidationError:
        return command


@lru_cache(maxsize=1_000)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=models.decode)


@lru_cache(maxsize=1_000)
def _defaults(kind: Any) -> dict[str, Any]:
    """Field → default, as JSON; of fields that have one."""
    found: dict[str, Any] = {}
    for name, default in _declared(kind):
        try:
            found[name] = msgspec.json.decode(_encode(default))
        except (TypeError, ValueError, NotImplementedError):
            continue
    return found


def _declared(kind: type) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(kind):
        every: list[Any] = [
            (f.name, f.default, f.default_factory, dataclasses.MISSING)
            for f in dataclasses.fields(kind)
        ]
    elif issubclass(kind, msgspec.Struct):
        every = [
            (f.encode_name, f.default, f.default_factory, msgspec.NODEFAULT)
            for f in msgspec.structs.fields(kind)
        ]
    else:
        fields: dict[str, Any] = getattr(kind, "model_fields", {})
        return [
            (name, f.get_default(call_default_factory=True))
            for name, f in fields.items()
            if not f.is_required()
        ]
    found = []
    for name, default, factory, missing in every:
        if default is not missing:
            found.append((name, default))
        elif factory is not missing:
            found.append((name, factory()))
    return found


class Step(NamedTuple):
    """One command that follows from an event."""

    path: str
    former: str

    @property
    def refused(self) -> Step:
        """Before the steps that follow if it is refused."""
        return Step(f"{self.path}.no", f"{self.former}.no")


class Steps:
    """Those that follow one another, behind another one."""

    def __init__(self, before: Step) -> None:
        self._before = before
        self._count = 0
        self._equal: dict[str, int] = {}

    def next(self, topic: str, id: str, command: object) -> Step:
        number, self._count = self._count, self._count + 1
        former = f"{self._before.former}.{number}"
        fingerprint = of(command)
        if not fingerprint:  # nobody can say what it is: its number, then
            return Step(f"{self._before.path}.#{number}", former)
        said = f"{topic}\0{id}\0{fingerprint}".encode("utf-8", "replace")
        name = blake2b(said, digest_size=12).hexdigest()
        equal = self._equal[name] = self._equal.get(name, 0) + 1
        return Step(f"{self._before.path}.{name}{f'-{equal}' if equal > 1 else ''}", former)
