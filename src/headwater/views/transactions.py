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
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headwater.log import atomic_file
from headwater.views.position import Position
from headwater.views.target import Misfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FOLDER = "held"
HELD_MAX = 1_000_000
RECORD = ("key", "value", "topic", "partition", "offset")
READ = ("_transaction", "_order", "_end")
"""Of a record's value: the transaction's id, the event's number in its table, and what END counted."""
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
        columns = (every.column(name).to_pylist() for name in (*RECORD[2:], *READ))
        events = [Event(*row) for row in zip(*columns, strict=True)]
        lacking = lacking_events(events, self._topic, self._tables, unreadable)
        now, later = divide(events, self._topic, self._tables, self._all_read(batch, lacking))
        self._must_be_bounded(events, later)
        kept = every.take(pa.array(later, pa.int64()))
        self._hold(batch, kept, _first([events[n] for n in later]), unreadable)
        whole = every.take(pa.array(now, pa.int64())).select(list(RECORD))
        self._inner(records.sparkSession.createDataFrame(whole), batch)
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
                return pa.ipc.open_file(file).read_all().cast(schema)
        except FileNotFoundError:
            raise Misfit(
                f"what batch {batch} held back is gone from {self._folder}: build the view anew with "
                "headwater rebuild"
            ) from None

    def _unreadable(self, batch: int) -> set[str]:
        """The tables that have had values which are no JSON."""
        try:
            said = json.loads((self._folder / f"{batch}.json").read_bytes())
        except FileNotFoundError:
            return set()
        return set(said.get("unreadable", ()))

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
        self, batch: int, later: pa.Table, first: Offsets, unreadable: Collection[str] = ()
    ) -> None:
        import pyarrow as pa

        atomic_file.make_folder(self._folder)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, later.schema) as writer:
            writer.write_table(later)
        atomic_file.write(self._folder / f"{batch}.arrow", sink.getvalue().to_pybytes())
        said = json.dumps({"topic": self._topic, "first": first, "unreadable": sorted(unreadable)})
        atomic_file.write(self._folder / f"{batch}.json", said)


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
    return records.select(
        *RECORD,
        F.when(marks, F.get_json_object(inner, "$.id")).otherwise(of_event).alias("_transaction"),
        order.alias("_order"),
        F.when(ended, collections).alias("_end"),
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


def divide(
    events: Sequence[Event],
    topic: str,
    tables: Sequence[str],
    all_read: Collection[str] = (),
) -> tuple[list[int], list[int]]:
    """Which records are to be handed on now, and which are held; by their places in `events`.

    Transactions that are `all_read` are whole with the events that they have.

    BEGIN, and END of what is whole, are neither: they have said what they had to.
    """
    places = sorted(range(len(events)), key=lambda n: events[n][:3])
    held = _unfinished(events, topic, tables) - set(all_read)
    while True:
        now, later = _cut(events, places, held, topic)
        torn = {events[n].transaction for n in later if events[n].topic != topic}
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


def lacking_events(
    events: Sequence[Event], topic: str, tables: Sequence[str], among: Collection[str]
) -> set[str]:
    """Transactions whose END is there, and which lack events of nothing but these tables."""
    if not among:
        return set()
    seen, ends = _sorted_out(events, topic)
    unfinished = _unfinished(events, topic, tables)
    others = [each for each in tables if each not in among]
    return {
        each
        for each in unfinished
        if each in ends and _is_whole(ends[each], seen.get(each, {}), tables, others)
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


def _unfinished(events: Sequence[Event], topic: str, tables: Sequence[str]) -> set[str]:
    """Transactions of which an event, or the END, is not there yet."""
    seen, ends = _sorted_out(events, topic)
    return {
        each
        for each, by_table in {**{end: {} for end in ends}, **seen}.items()
        if each not in ends or not _is_whole(ends[each], by_table, tables, tables)
    }


def _is_whole(
    end: str, seen: Mapping[str, set[int | None]], tables: Sequence[str], looked_at: Sequence[str]
) -> bool:
    for each in json.loads(end):
        table = table_of(str(each["data_collection"]), tables)
        if (
            table is not None
            and table in looked_at
            and len(seen.get(table, ())) < int(each["event_count"])
        ):
            return False
    return True


def table_of(collection: str, tables: Sequence[str]) -> str | None:
    """The view's topic for a table as END names it (`public.orders`): the same, or the most alike."""

    def alike(topic: str) -> int:
        pairs = zip(reversed(topic.split(".")), reversed(collection.split(".")), strict=False)
        count = 0
        for one, other in pairs:
            if one != other:
                break
            count += 1
        return count

    if collection in tables:
        return collection
    best = max(tables, key=alike, default=None)
    return best if best is not None and alike(best) else None


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
