"""`headwater tail`: the last records of a topic, and those that come, like `tail -f`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import bootstrap_option, opened
from headwater.cli.interrupt import ctrl_c
from headwater.cli.record_words import (
    PLACES,
    as_json,
    as_text,
    filter_of,
    grep_option,
    key_option,
    partition_option,
    topic_argument,
    where_option,
)

if TYPE_CHECKING:
    from headwater.browse.decoder import Decoder
    from headwater.client.log import Log
    from headwater.client.places import Place
    from headwater.client.records import Cursor, Keep, Record


LAST = 10


def add_to(app: typer.Typer) -> None:
    app.command("tail")(tail)


def tail(
    topic: str = topic_argument(),
    lines: int = typer.Option(
        LAST, "--lines", "--last", "-n", min=0, metavar="COUNT", help="How many records to show."
    ),
    start: str | None = typer.Option(
        None, "--from", metavar="PLACE", help=f"Begin here instead: {PLACES}."
    ),
    until: str | None = typer.Option(
        None, "--until", metavar="PLACE", help="Stop before this place; the same words."
    ),
    follow: bool = typer.Option(
        True,
        "--follow/--no-follow",
        help="Go on with what comes, until Ctrl-C; or leave at the end.",
    ),
    limit: int | None = typer.Option(
        None, "--limit", min=1, metavar="COUNT", help="Leave after so many records."
    ),
    partition: list[int] = partition_option(),
    key: str | None = key_option(),
    grep: str | None = grep_option(),
    ignore_case: bool = typer.Option(False, "--ignore-case", "-i", help="For --grep."),
    where: list[str] = where_option(),
    as_json_: bool = typer.Option(
        False, "--json", help="JSON lines also on a terminal; elsewhere they are the default."
    ),
    text: bool = typer.Option(False, "--text", help="Text also where it is piped."),
    values: bool = typer.Option(False, "--values", help="Only the values, byte for byte."),
    bootstrap: str = bootstrap_option(),
) -> int:
    """Show the last records of a topic, then what comes.

    On a terminal a record is a line of time, partition:offset, key, value and headers; piped, it is a JSON
    object on a line, which `headwater produce --jsonl` reads back. What is no text is shown in hexadecimal.
    Ctrl-C ends it with exit code 0.

    Example: headwater tail orders --from -10m --where status=paid --no-follow
    """
    if as_json_ + text + values > 1:
        raise typer.BadParameter("give one of --json, --text and --values")
    from headwater.browse.decoder import Decoder
    from headwater.client.places import parse

    first = None if start is None else parse(start)
    last = None if until is None else parse(until)
    wanted = filter_of(key, grep, where, ignore_case)
    with opened(bootstrap) as log:
        decoder = Decoder(log)
        look = _Look(log, topic, list(partition) or None, wanted.compiled(decoder))
        write = _writer(decoder, as_json_, text, values)
        with (
            ctrl_c() as pressed,
            closing(look.records(lines, first, last, follow=follow)) as found,
        ):
            _write(found, write, limit, pressed)
    return 0


class _Look:
    """One topic, from a place on."""

    def __init__(
        self, log: Log, topic: str, partitions: list[int] | None, keep: Keep | None
    ) -> None:
        self._log, self._topic, self._partitions, self._keep = log, topic, partitions, keep

    def records(
        self, count: int, first: Place | None, last: Place | None, *, follow: bool
    ) -> Generator[list[Record], None, None]:
        from headwater.client.records import Cursor

        if first is None and last is None:
            ends, records = self._last(count)
            yield records
        else:
            held = self._log.ranges(self._topic, self._partitions)
            ranges = self._ranges(held, first, last)
            ends = Cursor({p: end for p, (_, end) in ranges.items()})
            yield from self._read(ranges)
        if follow and last is None:
            yield from self._follow(ends)

    def _last(self, count: int) -> tuple[Cursor, list[Record]]:
        from headwater.browse.pages import page

        found = page(
            self._log,
            self._topic,
            back=True,
            limit=max(count, 1),
            keep=self._keep,
            partitions=self._partitions,
        )
        if sys.stdout.isatty() and not found.records:
            _say(f"no record of {self._topic} to show yet")
        if found.is_cut:
            _say(f"looked at the last {found.scanned:,} offsets only; --from beginning reads all")
        return found.ends, found.records[:count][::-1]

    def _ranges(
        self, held: dict[int, tuple[int, int]], first: Place | None, last: Place | None
    ) -> dict[int, tuple[int, int]]:
        from headwater.client.errors import NotThere
        from headwater.client.places import BEGINNING, END, is_beyond, located

        if first is not None and is_beyond(first, held):
            ends = ", ".join(f"{p}:{end}" for p, (_, end) in held.items())
            raise NotThere(
                f"{self._topic} has no offset {first.offset} yet",
                hint=f"the next one will be {ends}; --from end waits for it",
            )
        begin = located(self._log, self._topic, first or BEGINNING, held).offsets
        end = located(self._log, self._topic, last or END, held).offsets
        return {p: (begin[p], max(begin[p], end[p])) for p in begin if p in end}

    def _read(self, ranges: dict[int, tuple[int, int]]) -> Iterator[list[Record]]:
        from headwater.client.log import SCAN_BYTES
        from headwater.client.ranges import read

        for records in read(self._log, self._topic, ranges, SCAN_BYTES):
            yield records if self._keep is None else [r for r in records if self._keep(r)]

    def _follow(self, ends: Cursor) -> Iterator[list[Record]]:
        from headwater.client.tail import follow

        fixed = self._partitions is not None
        return follow(self._log, self._topic, ends, self._keep, partitions_fixed=fixed)


def _write(
    found: Iterator[list[Record]],
    write: Callable[[Record], None],
    limit: int | None,
    is_over: Callable[[], bool],
) -> None:
    left = limit
    for records in found:
        for record in records[:left]:
            write(record)
        if records:
            sys.stdout.flush()  # whoever reads the pipe sees each as it comes
        if left is not None:
            left -= len(records)
            if left <= 0:
                return
        if is_over():
            return


def _writer(decoder: Decoder, json_: bool, text: bool, values: bool) -> Callable[[Record], None]:
    if values:
        return lambda record: print_bytes(record.value)
    is_terminal = sys.stdout.isatty()
    if json_ or not (is_terminal or text):
        return lambda record: print(as_json(record, decoder))
    colours = is_terminal and not os.environ.get("NO_COLOR")
    return lambda record: print(as_text(record, decoder, colours=colours))


def print_bytes(value: bytes | None) -> None:
    sys.stdout.buffer.write((value or b"") + b"\n")


def _say(sentence: str) -> None:
    print(f"headwater: {sentence}", file=sys.stderr)
