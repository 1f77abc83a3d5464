"""What checking every record of a produced batch costs: `python -m bench.broker.check`.

CPU seconds per million records, for equal and varied sizes, plain and compressed, with the compiled form of
the checks where there is one (HEADWATER_PLAIN=1: without); beside them what the checksum and decompression of
the same batches cost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import partial

from headwater.record import batch as batches
from headwater.record import codecs, forms
from headwater.record.records import Record, build

COUNT = 5000
ROUNDS = 7


def cases() -> Iterator[tuple[str, bytes]]:
    """Name and batch."""
    dice = random.Random(1)
    equal = [Record(i, 1000 + i // 50, b"k%07d" % i, bytes(82)) for i in range(COUNT)]
    varied = [r._replace(value=dice.randbytes(dice.randint(38, 388))) for r in equal]
    yield "equal, 100 bytes", build(equal)
    yield "varied, 50-400 bytes", build(varied)
    yield "varied, with a header", build([r._replace(headers=(("h", b"v"),)) for r in varied])
    for codec in range(1, 5):
        yield f"varied, {codecs.NAMES[codec]}", build(varied, codec=codec)


def seconds(function: Callable[[], object]) -> float:
    """CPU per million records, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return best / COUNT * 1e6


def main() -> None:
    print(f"record checks: {forms.name()}")
    print(f"{'batch':24}{'whole check':>12}{'checksum':>10}{'decompress':>12}   s/million records")
    for name, data in cases():
        whole = seconds(partial(batches.validate_produced, data))
        checksum = seconds(partial(batches.check, data))
        unpacked = seconds(partial(batches.payload, data))
        print(f"{name:24}{whole:12.3f}{checksum:10.3f}{unpacked:12.3f}")


if __name__ == "__main__":
    main()
