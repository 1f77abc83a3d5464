"""What becomes of many batches, most of them damaged: `python -m tests.record.outcomes SEED COUNT` prints it,
so that the form in which one process has these modules can be compared with that of another."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

from headwater.record import batch as batches
from headwater.record import forms, varint
from headwater.record.errors import RecordError
from headwater.record.keys import each_key, pick, read_keys
from headwater.record.records import Record, build, decode


def outcomes(seed: int, count: int) -> Iterator[str]:
    dice = random.Random(seed)
    for number in range(count):
        batch = _damaged(dice, build(_records(dice), base_timestamp=dice.choice((0, 2**62 + 1))))
        said = [
            _outcome(lambda batch=batch: batches.validate_produced(batch, headers_max=60)),
            _outcome(lambda batch=batch: list(each_key(batch))),
            _outcome(lambda batch=batch: _picked(batch)),
            _outcome(lambda batch=batch: decode(batch)),
            _outcome(lambda batch=batch: varint.read(batch, 61, len(batch), 10)),
        ]
        yield f"{number}: {' | '.join(said)}"


def _picked(batch: bytes) -> object:
    payload, count = bytes(batches.payload(batch)), batches.read_header(batch).record_count
    keys, without_value = read_keys(payload, count)
    return keys, without_value, pick(payload, list(range(0, count, 2)))


def _outcome(function: Callable[[], object]) -> str:
    try:
        return repr(function())
    except RecordError as error:
        return f"{type(error).__name__}: {error}"


def _records(dice: random.Random) -> list[Record]:
    alike = dice.random() < 0.4
    sizes = [dice.choice((0, 3, 40, 70, 200, 9000))] if alike else [0, 1, 5, 62, 63, 64, 300]
    names = (("h", b"v"), ("name" * 20, None))[: dice.randrange(3)]
    return [
        Record(
            i,
            2**62 + dice.choice((-1, 0, 0, 1, 100, 10**6, -(2**40))),
            None if dice.random() < 0.1 else b"k" * dice.choice((0, 5, 5, 5, 70)),
            None if dice.random() < 0.1 else bytes(dice.choice(sizes)),
            names if dice.random() < 0.5 else (),
        )
        for i in range(dice.choice((1, 2, 30, 100)))
    ]


def _damaged(dice: random.Random, batch: bytes) -> bytes:
    payload = bytearray(batches.payload(batch))
    for _ in range(dice.choice((0, 1, 1, 1, 3))):
        at = dice.randrange(len(payload))
        payload[at] = dice.choice((payload[at] ^ 1, payload[at] ^ 0x80, dice.randrange(256)))
    if dice.random() < 0.2:
        del payload[dice.randrange(1, len(payload) + 1) :]
    if dice.random() < 0.1:
        payload += dice.randbytes(dice.randrange(1, 20))
    header = batches.read_header(batch)
    if dice.random() < 0.1:
        wrong = dice.choice((1, header.record_count - 1, header.record_count + 1))
        header = header._replace(record_count=wrong, last_offset_delta=wrong - 1)
    return batches.pack(header, payload)


if __name__ == "__main__":
    print(forms.name())
    for line in outcomes(int(sys.argv[1]), int(sys.argv[2])):
        print(line)
