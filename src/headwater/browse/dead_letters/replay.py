"""Send dead letters back to where they came from, as they are or mended, each once.

Letters and the account of them go into one transaction, so an interrupted replay has happened, or has
not. The producer is opened before the account is read: whoever was sending before is fenced by then, and
what it committed is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from headwater.browse.dead_letters.letter import Handled, Letter
from headwater.browse.dead_letters.survey import (
    REPLAY_GROUP,
    TIMEOUT_S,
    Letters,
    LettersRefused,
    open_letters,
)
from headwater.client.namespace import refuse_own
from headwater.record import dead_letter

if TYPE_CHECKING:
    from headwater.client.librdkafka import Producer

BATCH = 500


@dataclass(frozen=True)
class Correction:
    """A letter to deal with by itself: where it lies, and the value to send in place of its own."""

    partition: int
    offset: int
    value: bytes | None = None
    is_changed: bool = False


def replay(
    settings: Mapping[str, Any],
    topic: str,
    *,
    to: str = "",
    limit: int = 0,
    tell: Callable[[int], None] = lambda sent: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Send what waits, in order, to its source or `to`; how many went. `tell` hears after each batch."""
    sent = 0
    with _sending(settings, topic) as (producer, letters):
        waiting = letters.waiting()
        wanted = islice(waiting, limit) if limit else waiting
        while not is_stopped() and (batch := list(islice(wanted, BATCH))):
            last = {letter.partition: letter.offset for letter in batch}
            done = {n: letters.handled[n].moved(offset + 1) for n, offset in last.items()}
            _commit(producer, letters, [(letter, letter.value) for letter in batch], done, to)
            sent += len(batch)
            tell(sent)
    return sent


def send_one(settings: Mapping[str, Any], topic: str, which: Correction, *, to: str = "") -> str:
    """Send one letter, mended if `which` says so, out of its turn; the topic to which it went."""
    with _sending(settings, topic) as (producer, letters):
        letter = _waiting(letters, which.partition, which.offset)
        value = which.value if which.is_changed else letter.value
        done = _with(letters, which.partition, which.offset)
        _commit(producer, letters, [(letter, value)], done, to)
        return to or letter.source


def dismiss(settings: Mapping[str, Any], topic: str, partition: int, offset: int) -> None:
    """Let a letter wait no longer, without sending it. It stays in the topic."""
    with _sending(settings, topic) as (producer, letters):
        _waiting(letters, partition, offset)
        _commit(producer, letters, [], _with(letters, partition, offset), "")


def _waiting(letters: Letters, partition: int, offset: int) -> Letter:
    letter = letters.at(partition, offset)
    if letter is None:
        raise LettersRefused(f"there is no dead letter at {partition}:{offset} of {letters.topic}")
    if offset in letters.handled[partition]:
        raise LettersRefused(
            f"the letter at {partition}:{offset} was sent back or dismissed already",
            hint="reload the list of those that wait",
        )
    return letter


def _with(letters: Letters, partition: int, offset: int) -> dict[int, Handled]:
    letters.handled[partition] = letters.handled[partition].with_also([offset])
    done = letters.settled(partition)
    if not done.fits:
        raise LettersRefused(
            "too many letters were dealt with out of their order to remember more",
            hint=f"send back or dismiss the oldest first: {partition}:{done.position} waits",
        )
    return {partition: done}


def _commit(
    producer: Producer,
    letters: Letters,
    batch: Sequence[tuple[Letter, bytes | None]],
    done: dict[int, Handled],
    to: str,
) -> None:
    """Send a batch and note what is done with it, both or neither."""
    from headwater.client.librdkafka import TopicPartition

    _check(batch, to)
    producer.begin_transaction()
    try:
        for letter, value in batch:
            words: dict[str, Any] = {"headers": letter.headers}
            if not to:
                words["partition"] = letter.source_partition
            producer.produce(to or letter.source, value, letter.key, **words)
        offsets = [
            TopicPartition(letters.topic, number, each.position, metadata=each.metadata())
            for number, each in done.items()
        ]
        metadata = letters.consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
    except BaseException:
        _abort(producer)
        raise
    letters.handled.update(done)


def _check(batch: Sequence[tuple[Letter, bytes | None]], to: str) -> None:
    """Whether each of them can go, and may. Raises LettersRefused, RequestRefused."""
    for letter, value in batch:
        if dead_letter.is_cut(letter.said, but_value=value != letter.value):
            raise LettersRefused(
                f"the letter at {letter.partition}:{letter.offset} was too large to be kept whole: what is "
                f"there is the beginning of its record, which is {letter.source}-{letter.source_partition} "
                f"at offset {letter.source_offset}",
                hint="send that record again from where it is (headwater replay), and dismiss the letter",
            )
        if not to and not letter.has_source:
            raise LettersRefused(
                f"the letter at {letter.partition}:{letter.offset} came from no single record",
                hint="say to which topic it shall go (--to TOPIC), or dismiss it in the console",
            )
        refuse_own(to or letter.source)  # its headers are what anybody wrote who may write letters


def _abort(producer: Producer) -> None:
    from headwater.client.librdkafka import KafkaException

    try:
        producer.abort_transaction(TIMEOUT_S)
    except KafkaException:
        pass  # fenced, or the broker is away: the broker ends the transaction itself


@contextmanager
def _sending(settings: Mapping[str, Any], topic: str) -> Iterator[tuple[Producer, Letters]]:
    from headwater.client.librdkafka import Producer

    producer = Producer(
        {
            **settings,
            "transactional.id": REPLAY_GROUP + topic,  # a second replay fences the first
            "metadata.recovery.strategy": "none",  # see docs/transactions.md
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    with open_letters(settings, topic) as letters:
        yield producer, letters
