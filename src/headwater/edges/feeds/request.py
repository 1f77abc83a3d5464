"""What a client asks of a changefeed, from the words of its request. Pure.

| parameter          | meaning                                                                          |
|--------------------|----------------------------------------------------------------------------------|
| `key`              | only this key; of a JSON key with one field, its value                           |
| `where`            | `FIELD=VALUE` or `FIELD!=VALUE`, as `headwater tail --where`; may be given again |
| `grep`             | words or `/regular expression/` in key, value or headers                         |
| `after`            | an event id: go on behind it; the header `Last-Event-ID` counts more, as browsers|
|                    | send it when they come back to an address that still has the old one in it       |
| `from`             | beginning, end, an offset, a time, -10m: begin there                             |
| `snapshot`         | `true`: the latest record of each key first; `false`: not                        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.browse.decoder import Decoder, Shown
from headwater.browse.filters import Filter
from headwater.client.errors import BadRequest
from headwater.client.places import Place
from headwater.client.places import parse as place_of
from headwater.client.records import Record
from headwater.edges.feeds.event_ids import Offsets
from headwater.edges.feeds.event_ids import parse as offsets_of

WORDS_MAX = 1000
CONDITIONS_MAX = 20
Test = Callable[[Record], bool]


@dataclass(frozen=True)
class Ask:
    """`place` and `snapshot` None: as the topic is, see `Feed`."""

    filter: Filter = field(default_factory=Filter)
    after: Offsets | None = None
    place: Place | None = None
    snapshot: bool | None = None

    def tests(self, decoder: Decoder) -> Choice:
        """Compiled once: Misunderstood where a condition is none."""
        whose = Filter(key=self.filter.key)
        what = Filter(grep=self.filter.grep, where=self.filter.where)
        return Choice(whose.compiled(decoder), what.compiled(decoder))


@dataclass(frozen=True)
class Choice:
    """`whose`: the key; `what`: the rest, which a key's next record may fit or not. None: all fit."""

    whose: Test | None = None
    what: Test | None = None

    def fits(self, record: Record) -> bool:
        return self.is_mine(record) and (self.what is None or self.what(record))

    def is_mine(self, record: Record) -> bool:
        return self.whose is None or self.whose(record)

    @property
    def is_empty(self) -> bool:
        return self.whose is None and self.what is None


def read(
    *,
    key: str | None = None,
    where: Sequence[str] = (),
    grep: str | None = None,
    after: str | None = None,
    start: str | None = None,
    snapshot: bool | None = None,
) -> Ask:
    """Raises Misunderstood."""
    if len(where) > CONDITIONS_MAX:
        raise BadRequest(f"more than {CONDITIONS_MAX} conditions", hint="ask for less at once")
    for words in (key, grep, start, *where):
        if words is not None and len(words) > WORDS_MAX:
            raise BadRequest(
                f"{words[:20]!r}… is longer than {WORDS_MAX} letters", hint="shorten it"
            )
    if start is not None and snapshot:
        raise BadRequest("a snapshot has no `from`: it is all there is", hint="give one of them")
    return Ask(
        Filter(key=key, grep=grep, where=tuple(where)),
        offsets_of(after) if after else None,
        place_of(start) if start is not None else None,
        snapshot,
    )


class Remembering(Decoder):
    """Decodes what it is asked for again and again, record by record, only once. For one thread."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._last: tuple[bytes | None, Shown] = (None, decoder.decode(None))

    def decode(self, data: bytes | None, topic: str = "") -> Shown:
        if data is not None and data is self._last[0]:
            return self._last[1]
        shown = self._decoder.decode(data, topic)
        self._last = (data, shown)
        return shown
