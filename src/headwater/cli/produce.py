"""`headwater produce`: records into a topic, from lines, from JSON lines, or one from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json
from headwater.cli.lines import BadLine, Shape, drafts
from headwater.cli.progress import Bar
from headwater.cli.record_words import topic_argument
from headwater.cli.registry_words import Encode, as_it_is, by_schema_option, encoder
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.client.publisher import Draft, Sender

STDIN = "-"


class NotStored(HeadwaterError):
    """Some records did not reach the topic."""


def add_to(app: typer.Typer) -> None:
    app.command("produce")(produce)


def produce(
    topic: str = topic_argument(),
    file: str = typer.Argument(STDIN, metavar="[FILE]", help="Read from here; - is stdin."),
    value: str | None = typer.Option(
        None, "--value", metavar="TEXT", help="One record with this value; reads nothing."
    ),
    tombstone: bool = typer.Option(
        False, "--tombstone", help="One record that deletes the --key; reads nothing."
    ),
    key: str | None = typer.Option(None, "--key", metavar="KEY", help="The key of every record."),
    separator: str | None = typer.Option(
        None,
        "--key-separator",
        "-K",
        metavar="TEXT",
        help=r"Each line is KEY, this, and the value; \t is a tab.",
    ),
    null: str | None = typer.Option(
        None, "--null", metavar="TEXT", help="A value that is this is a tombstone."
    ),
    jsonl: bool = typer.Option(
        False,
        "--jsonl",
        help="Each line is a JSON object with key, value, headers, as tail prints.",
    ),
    header: list[str] = typer.Option(
        [],
        "--header",
        "-H",
        metavar="NAME=VALUE",
        help="A header of every record; may be repeated.",
    ),
    partition: int | None = typer.Option(
        None, "--partition", metavar="NUMBER", min=0, help="Into this partition, whatever the key."
    ),
    by_schema: bool = by_schema_option(),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Write records into a topic: one for each line, or one from the command line.

    A key goes to the partition where Java's clients and Spark put it. With --jsonl a line may have key,
    value, headers, partition and timestamp; a string is stored as its text, anything else as JSON, and null
    is a tombstone. It stops at the first line that it does not understand, and names it. The exit code is 0
    only if every record is on disk.

    Example: printf '17 paid\\n18 sent\\n' | headwater produce orders -K ' '
    """
    shape = _shape(jsonl, separator, key, null, header, partition)
    single = _is_single(value, tombstone, file, key, separator, jsonl)
    with opened(bootstrap) as log:
        encode = encoder(log, topic) if by_schema else as_it_is
        if single:
            return _one(log, topic, None if tombstone else value or "", shape, encode, as_json)
        with _source(file) as source:
            return _many(log, topic, source, shape, encode, as_json)


def _shape(
    jsonl: bool,
    separator: str | None,
    key: str | None,
    null: str | None,
    header: list[str],
    partition: int | None,
) -> Shape:
    pairs = []
    for each in header:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE, as in --header source=import")
        pairs.append((name, text.encode("utf-8", "surrogateescape")))
    between = None if separator is None else separator.replace("\\t", "\t")
    if between == "":
        raise typer.BadParameter("--key-separator cannot be empty")
    return Shape(
        jsonl,
        _bytes(between),
        _bytes(key),
        _bytes(null),
        tuple(pairs),
        partition,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _is_single(
    value: str | None,
    tombstone: bool,
    file: str,
    key: str | None,
    separator: str | None,
    jsonl: bool,
) -> bool:
    """Whether the command line has the record. Raises where what is said contradicts itself."""
    single = value is not None or tombstone
    if tombstone and (value is not None or key is None):
        raise typer.BadParameter("--tombstone needs a --key, and no --value")
    if single and (file != STDIN or separator is not None or jsonl):
        raise typer.BadParameter("--value and --tombstone are one record: give no file with them")
    if separator is not None and (jsonl or key is not None):
        raise typer.BadParameter("--key-separator goes with neither --jsonl nor --key")
    return single


def _one(
    log: Log, topic: str, value: str | None, shape: Shape, encode: Encode, as_json: bool
) -> int:
    from headwater.client.publisher import publish

    stored = publish(log, topic, encode(1, shape.draft(shape.key, _bytes(value))))
    if as_json:
        print_json({"topic": topic, "partition": stored.partition, "offset": stored.offset})
    else:
        print(f"Stored in {topic} at {stored.partition}:{stored.offset}")
    return 0


def _many(
    log: Log, topic: str, source: IO[bytes], shape: Shape, encode: Encode, as_json: bool
) -> int:
    from headwater.client.publisher import Sender

    refused: list[tuple[int, str]] = []
    bad: BadLine | None = None
    with Bar(f"producing to {topic}") as bar:
        waiting = _Waiting()
        sender = Sender(log, topic, lambda tag, why: refused.append((tag, why)), waiting.tell)
        typed = source.isatty()
        if typed:
            print("One record on each line; Ctrl-D ends.", file=sys.stderr)
        with sender:
            try:
                for number, draft in drafts(source, shape):
                    _send(sender, encode(number, draft), number)
                    if not typed:
                        bar.show(number, None)
                    if refused:
                        break
            except BadLine as error:
                bad = error
            except KeyboardInterrupt:
                sender.flush()
                print(f"\n{_stored(sender.stored, topic)}, then interrupted", file=sys.stderr)
                raise
    if refused:
        bad = _refusal(refused, sender)
    if bad is not None:
        raise NotStored(f"{bad}; {_stored(sender.stored, topic)}", hint=bad.hint)
    if as_json:
        print_json({"topic": topic, "records": sender.stored})
    else:
        print(_stored(sender.stored, topic))
    return 0


def _refusal(refused: list[tuple[int, str]], sender: Sender) -> BadLine:
    number, why = min(refused)
    hint = "some lines after it may be stored as well; remove the cause before sending it again"
    missing = sender.sent - sender.stored
    were = "1 record was" if missing == 1 else f"{missing:,} records were"
    sentence = f"line {number}, or one sent with it, was refused: {why}; {were} not acknowledged"
    return BadLine(sentence, hint=hint)


class _Waiting:
    """Says once that nothing is acknowledged."""

    def __init__(self) -> None:
        self._is_told = False

    def tell(self, count: int) -> None:
        if not self._is_told:
            self._is_told = True
            were = "1 record is" if count == 1 else f"{count:,} records are"
            print(
                f"{were} not acknowledged yet, and sent again until the broker takes them; "
                "`headwater status` says what troubles it (a full disk, perhaps)",
                file=sys.stderr,
            )


def _send(sender: Sender, draft: Draft, number: int) -> None:
    from headwater.client.errors import NotThere, RequestRefused

    try:
        sender.send(draft, number)
    except (NotThere, RequestRefused) as error:
        raise BadLine(f"line {number}: {error}", hint=error.hint) from None


def _stored(count: int, topic: str) -> str:
    return f"{count:,} record{' is' if count == 1 else 's are'} stored in {topic}"


@contextmanager
def _source(file: str) -> Iterator[IO[bytes]]:
    if file == STDIN:
        yield sys.stdin.buffer
        return
    try:
        found = Path(file).open("rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotStored(
            f"cannot read {file}: {reason}", hint="name a file, or - for stdin"
        ) from None
    with found:
        yield found
