"""Values of a table that cannot be read: each becomes a dead letter, and its row stays as it was.

`decoder` finds them and has them put away before the batch does anything else. A letter is in the topic
once, however often the batch comes again: who writes it looks first which are there
(`client.dead_letter_writer`, the same as for streams). The key whose newest value cannot be read keeps
its last good row: to take it away would turn a mistake of the writer into a delete.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headwater.client.dead_letter_writer import BadRecord

AT_ONCE = 10_000
"""Letters of one transaction."""


class BadValue(NamedTuple):
    """Where it is, and why it cannot be read."""

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes


class ValueRefused(HeadwaterError):
    """A value cannot be read, and the view is to stop at the first."""


Refuse = Callable[[Sequence[BadValue]], None]


def stop(bad: Sequence[BadValue]) -> None:
    """For views with on_refused="fail"."""
    first = min(bad)
    raise ValueRefused(
        f"the value at offset {first.offset} of {first.topic}-{first.partition} cannot be read as a row "
        f"of its table: {first.reason}",
        hint="correct the schema of hw.table, or leave out on_refused='fail' to keep such values apart",
    )


@dataclass(frozen=True)
class DeadLetterBox:
    """Puts bad values into a view's dead-letter topic."""

    topic: str | None
    """None: that of the topic which they come from."""
    client: Mapping[str, str]
    """Settings of the Kafka client."""

    def __call__(self, bad: Sequence[BadValue]) -> None:
        from headwater.client.dead_letter_writer import DeadLetterWriter

        by_place: dict[tuple[str, int], list[BadValue]] = defaultdict(list)
        for each in sorted(bad):
            by_place[each.topic, each.partition].append(each)
        for place, found in by_place.items():
            box = DeadLetterWriter(self.client, *place, self.topic)
            for n in range(0, len(found), AT_ONCE):
                box.put(list(self._letters(place, found[n : n + AT_ONCE])))

    def _letters(self, place: tuple[str, int], bad: Sequence[BadValue]) -> Iterator[BadRecord]:
        """The records as they are in the log; of one that is gone meanwhile, what the batch had of it."""
        from headwater.client import cluster as connect
        from headwater.client.dead_letter_writer import BadRecord
        from headwater.client.verdict import read

        left = {each.offset: each for each in bad}
        cluster = connect.cluster(self.client)
        for record in read(cluster, place, bad[0].offset, bad[-1].offset + 1):
            known = left.pop(record.offset, None)
            if known is not None:
                own = list(record.headers)
                yield BadRecord(
                    record.offset, record.timestamp, record.key, record.value, own, known.reason
                )
        for each in left.values():
            yield BadRecord(each.offset, 0, None, each.value, [], each.reason)


def reason_for(text: str, row: StructType) -> str:
    """Why a value is no change of a table with these columns."""
    from pyspark.sql.pandas.types import to_arrow_type

    from headwater.spark.source.values.python import Misfit, conform

    try:
        said = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        return f"it is no JSON: {error}"
    except RecursionError:
        return "it is nested too deeply"
    if _is_truncate(said):
        return "it empties the table (op t), and does not say which rows are gone"
    try:
        for part in _rows_in(said):
            conform(part, to_arrow_type(row, timezone="UTC"), "")
    except Misfit as misfit:
        return str(misfit)
    return f"it is no row of {row.simpleString()}"


def _is_truncate(said: Any) -> bool:
    inner = said.get("payload", said) if isinstance(said, dict) else said
    if not isinstance(inner, dict) or inner.get("op") != "t":
        return False
    return inner.get("before") is None and inner.get("after") is None


def _rows_in(said: Any) -> Iterator[Any]:
    inner = said.get("payload", said) if isinstance(said, dict) else said
    if isinstance(inner, dict) and "op" in inner and ("before" in inner or "after" in inner):
        yield from (inner[name] for name in ("after", "before") if inner.get(name) is not None)
    else:
        yield inner
