"""What a command is answered with: accepted, with a position, or refused, with a reason.

Answers of commands that left no event (refusals, and commands with nothing to do) are records of the
topic NAME.answers, under the key of the aggregate. So a refusal is as durable as an event: it was
decided by the owner, and a second command with the same id gets the same answer.

    {"command": "…", "id": "alice", "n": 3}                          accepted, no event
    {"command": "…", "id": "alice", "n": 3, "refused": "…", "kind": "rule"}

with `fingerprint` where the command's id was given by its sender.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.client.position import Position

RULE, VERSION = "rule", "version"


class Refused(msgspec.Struct, frozen=True, omit_defaults=True):
    """`decide` returns it, and the caller gets it: the command left nothing."""

    reason: str
    kind: str = RULE
    """`rule`: `decide` said so; `version`: another version was expected; `failed`: it raised."""
    repeated: bool = False


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The events are on disk. Equal for a command that was sent twice, but for `repeated`."""

    topic: str
    partition: int
    aggregate: str
    version: int
    """Events that the aggregate has now, or had after this command."""
    events: int
    """How many this command left."""
    next_offset: int
    repeated: bool = False

    @property
    def position(self) -> Position:
        """Once a view covers it, the view has seen this command's events."""
        return Position({self.topic: {self.partition: self.next_offset}})


Answer = Accepted | Refused


class Line(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of NAME.answers."""

    command: str
    id: str
    n: int
    refused: str | None = None
    kind: str = RULE
    fingerprint: str = ""
    """Of the command (`Asked.fingerprint`)."""


_decoder = msgspec.json.Decoder(Line)
_encode = msgspec.json.Encoder().encode


def encode(line: Line) -> bytes:
    return _encode(line) + b"\n"


def decode_lines(lines: bytes) -> list[Line]:
    return _decoder.decode_lines(lines)


def decode(line: bytes) -> Line:
    return _decoder.decode(line)


def of_line(line: Line, topic: str, partition: int, next_offset: int) -> Answer:
    """What it says, to whoever decided it and to whoever reads it later."""
    if line.refused is not None:
        return Refused(line.refused, line.kind)
    return Accepted(topic, partition, line.id, line.n, 0, next_offset)


def repeated(answer: Answer) -> Answer:
    """The same answer, for a command that was sent again."""
    return answer if answer.repeated else msgspec.structs.replace(answer, repeated=True)


def to_reply(answer: Answer) -> dict[str, Any]:
    """For the reply topic."""
    name = "accepted" if isinstance(answer, Accepted) else "refused"
    return {name: msgspec.to_builtins(answer)}


def from_reply(reply: dict[str, Any]) -> Answer:
    if "accepted" in reply:
        return msgspec.convert(reply["accepted"], Accepted)
    return msgspec.convert(reply["refused"], Refused)
