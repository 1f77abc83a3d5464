"""A command on its way: to whom, what, who wants it, and the id under which it is decided once.

Within a process it is an `Asked`; between processes a record of NAME.commands, key the aggregate's id:

    {"type":"Deposit","id":"alice","command":"…","data":{"amount":10},"sent_ms":…,
     "expected":3,"who":"…","why":"…","correlation":"…","causation":"…","reply":{"partition":2,"to":"…"}}

`sent_ms` is when it was sent first, and stays the same when it is sent again: the owner looks for an
earlier decision from then on (`ledger`). `former` is another id under which it may have been decided.

Invariant: what a command says of itself must be text that can be written, or nobody could read the events
that follow from it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.events import command_fingerprint, models
from headwater.events.aggregate import Aggregate
from headwater.events.codec import NOTHING, Meta
from headwater.events.errors import BadCommand, BadDefinition, UnknownEvent


class ReplyTo(msgspec.Struct, frozen=True):
    """Where the answer is waited for: a partition of NAME.replies, and by whom."""

    partition: int
    to: str


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A command for an owner."""

    id: str
    command: Any
    command_id: str
    sent_ms: int
    meta: Meta = NOTHING
    expected: int | None = None
    fresh: bool = False
    """Its id was made just now, here: nobody can have decided it before."""
    former: str = ""
    """An id that it had before, if it may have been decided under that."""
    in_doubt: bool = False
    """This owner decided it already, and does not know whether that is in the log: what the log says is
    then its first answer."""

    def __post_init__(self) -> None:
        said = (self.id, self.command_id, self.former)
        try:
            text = "".join(said if self.meta is NOTHING else (*said, *self.meta))
            if not text.isascii():
                text.encode()
        except TypeError:
            raise BadCommand(
                "ids, who, why, correlation and causation are texts: "
                f"{(*said[:2], *self.meta)} are not all",
                hint="give str(…); nothing was sent",
            ) from None
        except UnicodeEncodeError as error:
            raise BadCommand(f"a text of the command cannot be written: {error}") from None
        if not self.command_id or self.id[:1] == "\0":
            raise BadCommand(
                "a command's id must not be empty, nor an aggregate's begin with a zero character",
                hint="give another id, or no command_id to have one made; nothing was sent",
            )
        for number in (self.sent_ms,) if self.expected is None else (self.sent_ms, self.expected):
            if type(number) is not int:
                raise BadCommand(f"times and versions are whole numbers, not {number!r}")

    def fingerprint(self) -> str:
        """Tells it from other commands with the same id; empty where that cannot be known."""
        return "" if self.fresh else command_fingerprint.of(self.command)


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    id: str
    command: str
    data: msgspec.Raw
    sent_ms: int
    expected: int | None = None
    who: str = ""
    why: str = ""
    correlation: str = ""
    causation: str = ""
    reply: ReplyTo | None = None
    former: str = ""


class Sender(msgspec.Struct, frozen=True):
    """Who waits for an answer to a command that was not understood, as far as it says so."""

    reply: ReplyTo
    id: str = ""
    command: str = ""


_wire = msgspec.json.Decoder(_Wire)
_sender = msgspec.json.Decoder(Sender)


def sender_of(value: bytes) -> Sender | None:
    """Of a command in whatever state; None where nobody waits, or nobody can tell."""
    try:
        return _sender.decode(value)
    except Exception:  # bytes that are no text, or nested too deeply, are no MsgspecError
        return None


class CommandCodec:
    """Of one aggregate."""

    def __init__(self, aggregate: Aggregate[Any]) -> None:
        self._name = aggregate.name
        self._encoder = msgspec.json.Encoder(enc_hook=models.encode)
        self.types = frozenset(aggregate.commands)
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            each.__name__: msgspec.json.Decoder(each, dec_hook=models.decode)
            for each in aggregate.commands
        }

    def check(self, command: object) -> None:
        if type(command) not in self.types:
            known = ", ".join(sorted(self._decoders))
            raise BadDefinition(
                f"{self._name} knows no command {type(command).__name__}", hint=f"it knows {known}"
            )

    def encode(self, asked: Asked, reply: ReplyTo | None) -> bytes:
        data = msgspec.Raw(self._encoder.encode(asked.command))
        name = type(asked.command).__name__
        return self._encoder.encode(
            _Wire(
                name,
                asked.id,
                asked.command_id,
                data,
                asked.sent_ms,
                asked.expected,
                *asked.meta,
                reply,
                asked.former,
            )
        )

    def decode(self, value: bytes) -> tuple[Asked, ReplyTo | None]:
        """Raises UnknownEvent for what is no command of this aggregate."""
        try:
            found = _wire.decode(value)
            decoder = self._decoders.get(found.type)
            if decoder is None:
                raise UnknownEvent(f"{self._name} knows no command {found.type}")
            command = decoder.decode(found.data)
        except UnknownEvent:
            raise
        except Exception as error:  # also of a command's own `__post_init__`, whatever it raises
            why = str(error) or type(error).__name__
            raise UnknownEvent(f"a command for {self._name} is not understood: {why}") from None
        meta = Meta(found.who, found.why, found.correlation, found.causation)
        asked = Asked(
            found.id,
            command,
            found.command,
            found.sent_ms,
            meta,
            found.expected,
            former=found.former,
        )
        return asked, found.reply
