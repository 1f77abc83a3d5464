"""Whole source transactions: what a transaction of the source changed becomes visible in one batch.

Stands between Spark and a view over tables whose option `transactions` names the capture's topic of
BEGIN and END records (`shop.transaction`). Events say which transaction they are of, END says how many
each table had. A transaction is whole when its END and all its events in the view's topics are there.

- Records from the first event of an unfinished transaction on, in each partition, are held; what then is
  no longer whole is held too, and so on. So nothing overtakes, and nothing is cut.
- What is held is a file of the batch that left it, on disk before the batch counts. The next batch begins
  with it, also after a crash: the same records give the same cut.
- The view's position is where what is held begins: it never claims a record that readers do not see.

    CHECKPOINT/held/BATCH.arrow     the records, with what was read from their values
    CHECKPOINT/held/BATCH.json      the first held offset of each partition

A value that is no JSON does not say which transaction it is of, and becomes a dead letter. Its transaction
would lack it for ever. So where a table has had such values, and END says more events than there are, the log
is asked where it ends: END is written behind its events, and once all up to there is read, nothing is missing
that could still come. The answer is on disk before it counts.

    CHECKPOINT/held/BATCH.ends      transaction → where its tables ended when its END was seen

Only the envelope's own counts are believed: a row that moved to another key is one event in two records,
which capture writes in one Kafka transaction. A transaction that began before the view did is never whole:
when more than `HELD_MAX` records are held, the query stops and names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater import atomic_file
from headwater.client.position import Position
from headwater.views.source_collections import Origins, origins_of, table_of
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FOLDER = "held"
HELD_MAX = 1_000_000
RECORD = ("key", "value", "topic", "partition", "offset", "timestamp")
PLACE = ("topic", "partition", "offset")
READ = ("_transaction", "_order", "_end", "_collection")
"""Of a record's value: the transaction's id, the event's number in its table, what END counted, and which
table an event says it is of."""
UNREADABLE = "_unreadable"
"""Whether it says none of that, since it is no JSON."""
Offsets = Mapping[str, Mapping[int, int]]
"""Topic → partition → offset."""


class Event(NamedTuple):
    """What decides over a record."""

    topic: str
    partition: int
    offset: int
    transaction: str | None
    order: int | None
    end: str | None
    collection: str | None = None


class WholeTransactions:
    """Hands records on to `inner`, Spark's foreachBatch of a view, as soon as they are whole."""

    def __init__(
        self,
        inner: Callable[[DataFrame, int], None],
        checkpoint: Path,
        topic: str,
        tables: Sequence[str],
        log_ends: Callable[[], Offsets],
    ) -> None:
        """`log_ends`: where the tables' topics end now, uncommitted records included."""
        self._inner, self._checkpoint = inner, checkpoint
        self._folder = checkpoint / FOLDER
        self._topic, self._tables = topic, tuple(tables)
        self._log_ends = log_ends

    def __call__(self, records: DataFrame, batch: int) -> None:
        import pyarrow as pa

        new = read_values(records, self._topic).toArrow()
        unreadable = self._unreadable(batch - 1) | _unreadable_in(new)
        new = new.drop_columns([UNREADABLE])
        every = new if batch == 0 else pa.concat_tables([self._held(batch - 1, new.schema), new])
        columns = (every.column(name).to_pylist() for name in (*PLACE, *READ))
        events = [Event(*row) for row in zip(*columns, strict=True)]
        origins = self._said(batch - 1).get("origins", {})
        origins |= origins_of((event.topic, event.collection) for event in events)
        whole = Wholeness(self._topic, self._tables, origins)
        lacking = lacking_events(events, whole, unreadable)
        now, later = divide(events, whole, self._all_read(batch, lacking))
        self._must_be_bounded(events, later)
        kept = every.take(pa.array(later, pa.int64()))
        self._hold(batch, kept, _first([events[n] for n in later]), unreadable, origins)
        complete = every.take(pa.array(now, pa.int64())).select(list(RECORD))
        self._inner(records.sparkSession.createDataFrame(complete), batch)
        forget(self._folder, batch - 1)

    def _must_be_bounded(self, events: Sequence[Event], later: Sequence[int]) -> None:
        if len(later) > HELD_MAX:
            first = next(events[n] for n in later if events[n].transaction is not None)
            raise Misfit(
                f"{len(later)} records wait for the end of the source transaction "
                f"{first.transaction}, which began at {first.topic}:{first.partition}={first.offset} "
                f"and of which {self._topic} does not say all"
            )

    def _held(self, batch: int, schema: pa.Schema) -> pa.Table:
        import pyarrow as pa

        try:
            with pa.OSFile(str(self._folder / f"{batch}.arrow")) as file:
                held = pa.ipc.open_file(file).read_all()
        except FileNotFoundError:
            raise Misfit(
                f"what batch {batch} held back is gone from {self._folder}: rebuild the view with "
                "headwater rebuild"
            ) from None
        for each in schema:  # a version before did not read all of them
            if each.name not in held.column_names:
                held = held.append_column(each, pa.nulls(held.num_rows, each.type))
        return held.select(schema.names).cast(schema)

    def _said(self, batch: int) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads((self._folder / f"{batch}.json").read_bytes())
        except FileNotFoundError:
            return {}
        return said

    def _unreadable(self, batch: int) -> set[str]:
        """The tables that have had values which are no JSON."""
        return set(self._said(batch).get("unreadable", ()))

    def _all_read(self, batch: int, lacking: set[str]) -> set[str]:
        """Those of which all is read that the log had when their END was seen."""
        if not lacking:
            return set()
        from headwater.views import offset_log

        ends = self._ends(batch, lacking)
        text = (self._checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8")
        position = Position(offset_log.parse(text).offsets)
        return {each for each in lacking if position.covers(Position(ends[each]))}

    def _ends(self, batch: int, lacking: set[str]) -> dict[str, Offsets]:
        """Where the tables ended; asked once, so that a batch that comes again is cut in the same place."""
        path = self._folder / f"{batch}.ends"
        found = _read_ends(path)
        if found is None:
            found = _read_ends(self._folder / f"{batch - 1}.ends") or {}
            now = self._log_ends()
            found = {each: found.get(each, now) for each in lacking}
            atomic_file.make_folder(self._folder)
            atomic_file.write(path, json.dumps(found))
        return found

    def _hold(
        self,
        batch: int,
        later: pa.Table,
        first: Offsets,
        unreadable: Collection[str] = (),
        origins: Origins | None = None,
    ) -> None:
        import pyarrow as pa

        atomic_file.make_folder(self._folder)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, later.schema) as writer:
            writer.write_table(later)
        atomic_file.write(self._folder / f"{batch}.arrow", sink.getvalue().to_pybytes())
        said = {"topic": self._topic, "first": first, "unreadable": sorted(unreadable)}
        text = json.dumps({**said, "origins": origins or {}})
        atomic_file.write(self._folder / f"{batch}.json", text)


def read_values(records: DataFrame, topic: str) -> DataFrame:
    """The records, and what their values say of transactions."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    inner = F.coalesce(F.get_json_object(value, "$.payload"), value)
    marks = F.col("topic") == topic
    ended = marks & (F.get_json_object(inner, "$.status") == "END")
    of_event = F.get_json_object(inner, "$.transaction.id")
    order = F.get_json_object(inner, "$.transaction.data_collection_order").cast("long")
    collections = F.coalesce(F.get_json_object(inner, "$.data_collections"), F.lit("[]"))
    schema, database, table = (
        F.get_json_object(inner, f"$.source.{name}") for name in ("schema", "db", "table")
    )
    collection = F.concat(F.coalesce(schema, database), F.lit("."), table)
    return records.select(
        *RECORD,
        F.when(marks, F.get_json_object(inner, "$.id")).otherwise(of_event).alias("_transaction"),
        order.alias("_order"),
        F.when(ended, collections).alias("_end"),
        F.when(~marks, collection).alias("_collection"),
        (value.isNotNull() & F.get_json_object(value, "$").isNull()).alias(UNREADABLE),
    )


def _unreadable_in(new: pa.Table) -> set[str]:
    return set(new.filter(new[UNREADABLE])["topic"].to_pylist())


def _read_ends(path: Path) -> dict[str, Offsets] | None:
    try:
        said = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return {each: _offsets(ends) for each, ends in said.items()}


def _offsets(said: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """JSON has no numbers as names."""
    return {topic: {int(p): o for p, o in places.items()} for topic, places in said.items()}


@dataclass(frozen=True)
class Wholeness:
    """What a transaction needs to be whole in a view."""

    topic: str
    """Of BEGIN and END."""
    tables: Sequence[str]
    """The view's topics."""
    origins: Origins = field(default_factory=dict)

    def is_there(
        self, end: str, seen: Mapping[str, set[int | None]], looked_at: Sequence[str]
    ) -> bool:
        """Whether as many events were seen as END says, in the topics that are looked at."""
        for each in json.loads(end):
            collection = str(each["data_collection"])
            table = table_of(collection, self.topic, self.tables, self.origins)
            if (
                table is not None
                and table in looked_at
                and len(seen.get(table, ())) < int(each["event_count"])
            ):
                return False
        return True


def divide(
    events: Sequence[Event], whole: Wholeness, all_read: Collection[str] = ()
) -> tuple[list[int], list[int]]:
    """Which records are to be handed on now, and which are held; by their places in `events`.

    Transactions that are `all_read` are whole with the events that they have.

    BEGIN, and END of what is whole, are neither: they have said what they had to.
    """
    places = sorted(range(len(events)), key=lambda n: events[n][:3])
    held = _unfinished(events, whole) - set(all_read)
    while True:
        now, later = _cut(events, places, held, whole.topic)
        torn = {events[n].transaction for n in later if events[n].topic != whole.topic}
        torn -= {*held, None}
        if not torn:
            return now, later
        held |= {each for each in torn if each is not None}


def _cut(
    events: Sequence[Event], places: Iterable[int], held: set[str], topic: str
) -> tuple[list[int], list[int]]:
    now: list[int] = []
    later: list[int] = []
    cut: set[tuple[str, int]] = set()
    for place in places:
        event = events[place]
        partition = (event.topic, event.partition)
        if event.topic == topic:
            if event.end is not None and event.transaction in held:
                later.append(place)
            continue
        if event.transaction in held:
            cut.add(partition)
        (later if partition in cut else now).append(place)
    return now, later


def lacking_events(events: Sequence[Event], whole: Wholeness, among: Collection[str]) -> set[str]:
    """Transactions whose END is there, and which lack events of nothing but these tables."""
    if not among:
        return set()
    seen, ends = _sorted_out(events, whole.topic)
    others = [each for each in whole.tables if each not in among]
    return {
        each
        for each in _unfinished(events, whole)
        if each in ends and whole.is_there(ends[each], seen.get(each, {}), others)
    }


Seen = dict[str, dict[str, set[int | None]]]


def _sorted_out(events: Sequence[Event], topic: str) -> tuple[Seen, dict[str, str]]:
    """The events of each transaction, by table, and what its END says."""
    seen: Seen = defaultdict(lambda: defaultdict(set))
    ends: dict[str, str] = {}
    for event in events:
        if event.transaction is None:
            continue
        if event.topic != topic:
            seen[event.transaction][event.topic].add(event.order)
        elif event.end is not None:
            ends[event.transaction] = event.end
    return seen, ends


def _unfinished(events: Sequence[Event], whole: Wholeness) -> set[str]:
    """Transactions of which an event, or the END, is not there yet."""
    seen, ends = _sorted_out(events, whole.topic)
    return {
        each
        for each, by_table in {**{end: {} for end in ends}, **seen}.items()
        if each not in ends or not whole.is_there(ends[each], by_table, whole.tables)
    }


def first_held(checkpoint: str, batch: int) -> tuple[str, dict[str, dict[int, int]]] | None:
    """The topic of BEGIN and END, and the first offset that a batch held back in each partition."""
    try:
        said = json.loads((Path(checkpoint) / FOLDER / f"{batch}.json").read_bytes())
    except FileNotFoundError:
        return None
    return said["topic"], _offsets(said["first"])


def forget(folder: Path, before: int) -> None:
    """Remove what batches before this one held: it is in later files, or in the view."""
    for path in folder.glob("*.*"):
        if path.stem.isdecimal() and int(path.stem) < before:
            path.unlink(missing_ok=True)


def _first(held: Iterable[Event]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for event in held:
        places = found.setdefault(event.topic, {})
        places[event.partition] = min(event.offset, places.get(event.partition, event.offset))
    return found
