"""One task: a range of one partition, read from wherever it can be had, as Arrow record batches.

Runs in a Python worker on an executor. `Task` is what the driver sends there. The files are taken where
this machine has them and they are the right ones; should they change under the reader, and always
elsewhere, the partition's leader is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from headwater.client import data_loss
from headwater.client.errors import ClientError, DataLoss
from headwater.record.errors import RecordError
from headwater.spark import worker
from headwater.spark.source.options import SourceOptions
from headwater.spark.source.splits import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.client.fetch import OutOfRange
    from headwater.spark.source.output import Output

logger = logging.getLogger("headwater.spark")


@dataclass
class Task(InputPartition):
    """A range, and how to get at it. `since` and `until` are microseconds, from a pushed filter."""

    range: Range
    topic_id: str
    leader: int
    address: tuple[str, int] | None
    folder: str | None
    cluster_id: str
    since: int | None = None
    until: int | None = None


def read(task: Task, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The task's records. Imports the decoder only here: planning needs none of it."""
    from headwater.client.decode.columns import Bounds
    from headwater.spark.source.output import Output

    worker.settle()
    bounds = Bounds(task.range.start, task.range.end)
    if task.since is not None:
        bounds = replace(bounds, since=task.since)
    if task.until is not None:
        bounds = replace(bounds, until=task.until)
    yield from read_into(Output(task.range, bounds, options, schema), task, options)


def read_into(output: Output, task: Task, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """What `output` makes of the task's records."""
    try:
        yield from _from_files(task, options, output)
        yield from _from_the_leader(task, options, output)
    except RecordError as error:
        raise ClientError(
            f"{task.range.topic}-{task.range.partition} has damaged data at or after offset "
            f"{output.next_offset}: {error}.",
            hint="The broker's disk has changed it. Restore the segment, or delete the records.",
        ) from error


def _from_files(task: Task, options: SourceOptions, output: Output) -> Iterator[pa.RecordBatch]:
    """As much of the range as can be had from files, which may be nothing."""
    if task.folder is None:
        return
    from headwater.spark.source.files import FileReader, FilesChanged, folder_of

    where = task.range
    folder = folder_of(task.folder, where, task.topic_id, task.cluster_id, task.leader)
    if folder is None:
        return
    reader = FileReader(folder, where, options.isolation)
    try:
        while output.next_offset < where.end:
            piece = reader.piece(output.next_offset)
            yield from output.batches(piece)
    except (FilesChanged, RecordError) as error:
        # Damage, too: the leader may have the records yet, or it says so with authority.
        logger.info("%s: %s; going on over the network", folder, error)
    finally:
        reader.close()


def _from_the_leader(
    task: Task, options: SourceOptions, output: Output
) -> Iterator[pa.RecordBatch]:
    if output.next_offset >= task.range.end:
        return  # the files had it all: no client is needed
    from headwater.client import cluster as connect
    from headwater.client.fetch import Fetcher, OutOfRange

    cluster = connect.cluster(options.client)
    if task.address is not None:
        cluster.locate(task.leader, task.address)
    where = task.range
    fetcher = Fetcher(
        cluster,
        where.topic,
        task.topic_id,
        where.partition,
        where.end,
        options.isolation,
        task.leader,
    )
    try:
        while output.next_offset < where.end:
            try:
                piece = fetcher.piece(output.next_offset)
            except OutOfRange as error:
                _lost(where, output, error, options)
                continue
            except DataLoss as loss:  # the topic is another one now, or ends before the range does
                data_loss.report(
                    loss, options.fail_on_data_loss, "the rest of the range is left out"
                )
                output.skip_to(where.end)
                continue
            yield from output.batches(piece)
    finally:
        fetcher.close()


def _lost(where: Range, output: Output, log: OutOfRange, options: SourceOptions) -> None:
    """Retention was faster than the query, or the log ends before the range does."""
    position, place = output.next_offset, (where.topic, where.partition)
    if log.start > position:
        reached = min(log.start, where.end)
        loss = data_loss.begins_after(*place, log.start, position)
    else:
        reached, loss = where.end, data_loss.ends_before(*place, log.end, where.end)
    data_loss.report(loss, options.fail_on_data_loss, f"it goes on at offset {reached}")
    output.skip_to(reached)
