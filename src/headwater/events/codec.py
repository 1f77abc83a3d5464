"""Events to bytes and back, many at a time, in compiled code. Used by owners, readers and views.

A record of the event topic: key is the aggregate's id, value is one line of JSON, which also names what
the key and the record's neighbours say, so that any reader of JSON understands it:

    {"type":"Deposited","id":"alice","n":17,"command":"…","data":{"amount":10},
     "who":"…","why":"…","correlation":"…","causation":"…"}\n

    type         class and version (`upcasters`)
    n            this is the n-th event of its aggregate, from 1 on, without a gap
    command      id of the command that it follows from; causation: what that command followed from
    correlation  the same for all commands and events of one process; left out: the command's id
    fingerprint  of the command, where its id was given by the sender (`commands`)

Invariants: a value must end in a newline and hold no other, so that the values of a batch, one behind
the other, are read as lines in one call. The record's time must not be before that of the record before.
An owner must apply, and answer for, only what it has decoded from the bytes that it writes (`written`):
then whoever reads them has the same state.

Also here: the cycle collector, put to rest while many events are made at once: none of them is garbage.

Without this it looks at all of them again and again: three quarters of the time of decoding.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from headwater.events import models
from headwater.events.aggregate import AnyAggregate
from headwater.events.errors import DecideFailed, UnknownEvent
from headwater.events.upcasters import Upcasts, tag


class Meta(NamedTuple):
    """Who wants something and why, and of what it is a consequence."""

    who: str = ""
    why: str = ""
    correlation: str = ""
    causation: str = ""


NOTHING = Meta()
_MANY = 1_000
_BEFORE = [("id", str), ("n", int), ("command", str)]
_BEHIND = [(name, str, "") for name in (*Meta._fields, "fingerprint")]


class Codec:
    """Of one aggregate. `decode` gives structs with the fields above, `data` being today's class."""

    def __init__(self, aggregate: AnyAggregate) -> None:
        self.aggregate = aggregate
        self._upcasts = Upcasts(
            aggregate.name, [each.__name__ for each in aggregate.events], aggregate.upcasters
        )
        self._types = {each.__name__: each for each in aggregate.events}
        self._structs = {
            each: _struct(tag(each.__name__, self._upcasts.present[each.__name__]), each)
            for each in aggregate.events
        }
        old = [_struct(each, dict[str, Any]) for each in sorted(self._upcasts.old)]
        self._old = frozenset(old)
        every = (*self._structs.values(), *old)
        self._decoder = msgspec.json.Decoder(
            every[0] if len(every) == 1 else _union(every), dec_hook=models.decode
        )
        self._encoder = msgspec.json.Encoder(enc_hook=models.encode)

    def encode(
        self,
        event: object,
        id: str,
        n: int,
        command: str,
        meta: Meta = NOTHING,
        fingerprint: str = "",
    ) -> bytes:
        struct = self._structs.get(type(event))
        if struct is None:
            raise UnknownEvent(
                f"decide of {self.aggregate.name} returned a {type(event).__name__}",
                hint="it must return declared events, or Refused",
            )
        return self._encoder.encode(struct(id, n, command, event, *meta, fingerprint)) + b"\n"

    def written(
        self, event: object, id: str, n: int, command: str, meta: Meta, fingerprint: str
    ) -> tuple[bytes, Any]:
        """The line, and the event as every reader of it will see it. Raises DecideFailed."""
        line = self.encode(event, id, n, command, meta, fingerprint)
        try:
            found = self._decoder.decode(line).data
        except msgspec.MsgspecError as error:
            raise self._not_readable(event, id, str(error)) from None
        if found != event and not models.same(found, event):
            raise self._not_readable(event, id, f"{event} would be read as {found}")
        if line.find(b"\n") != len(line) - 1:
            raise self._not_readable(event, id, "it holds a newline")
        return line, found

    def _not_readable(self, event: object, id: str, why: str) -> DecideFailed:
        return DecideFailed(
            f"{type(event).__name__} of {id} could not be read again as it is: {why}",
            hint="nothing was written; give its fields types that JSON keeps, and values of these types",
        )

    def decode(self, lines: bytes, count: int) -> list[Any]:
        """`count` events, of whatever versions."""
        try:
            with resting() if count > _MANY else nullcontext():
                found = self._decoder.decode_lines(lines)
        except msgspec.ValidationError as error:
            raise UnknownEvent(
                f"an event of {self.aggregate.name} is not understood: {error}",
                hint="declare its class, or an upcaster from its version",
            ) from None
        if len(found) != count:
            raise UnknownEvent(
                f"{self.aggregate.name} has {count} records and {len(found)} events",
                hint="somebody else wrote to the topic; only its owners may",
            )
        return self._lifted(found) if self._old else found

    def _lifted(self, found: list[Any]) -> list[Any]:
        old = self._old
        return [self._lift(each) if type(each) in old else each for each in found]

    def _lift(self, each: Any) -> Any:
        config = type(each).__struct_config__
        name, data = self._upcasts.lift(config.tag, each.data)
        kind = self._types[name]
        try:
            event: Any = msgspec.convert(data, kind, dec_hook=models.decode)
        except msgspec.ValidationError as error:
            raise UnknownEvent(
                f"{config.tag} of {each.id} does not become a {name}: {error}",
                hint="correct the upcaster; the log keeps the event as it was",
            ) from None
        behind = (*meta_of(each), each.fingerprint)
        return self._structs[kind](each.id, each.n, each.command, event, *behind)


def correlation_of(each: Any) -> str:
    """Of an event, or of anything that has its fields."""
    return each.correlation or each.command


def meta_of(each: Any) -> Meta:
    return Meta(each.who, each.why, each.correlation, each.causation)


def _struct(tagged: str, kind: Any) -> Any:
    fields: Iterable[Any] = [*_BEFORE, ("data", kind), *_BEHIND]
    name = "".join(c if c.isalnum() else "_" for c in tagged)
    return msgspec.defstruct(
        name, fields, tag_field="type", tag=tagged, omit_defaults=True, frozen=True, gc=False
    )


def _union(types: tuple[Any, ...]) -> Any:
    from typing import Union

    return Union[types]  # noqa: UP007 (made of a list that only the aggregate knows)


_lock = Lock()
_resting = 0
_was_enabled = False


@contextmanager
def resting() -> Iterator[None]:
    """For moments; several threads may rest it at once."""
    global _resting, _was_enabled
    with _lock:
        if _resting == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if _resting == 0 and _was_enabled:
                gc.enable()
