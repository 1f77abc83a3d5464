"""A broker process whose disk is full while a file called `full` lies beside its data folder.

`python -O -m tests.broker.full_disk --data … --listen …`; otherwise it is `headwater broker`.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import sys
from pathlib import Path

from headwater.broker.broker import Broker
from tests.broker.disks import HandDisk
from tests.broker.slow_disk import serve


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--data", "--listen"):
        parser.add_argument(option)
    parser.add_argument("--set", action="append", default=[])
    words = parser.parse_args()
    disk, flag = HandDisk(), Path(words.data).with_name("full")

    def fail(path: Path) -> None:
        if flag.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    for operation in ("write", "write_atomic", "create"):
        disk.on(operation, fail)
    settings = dict(each.split("=", 1) for each in words.set)
    print(f"asserts are {'on' if __debug__ else 'off'}", file=sys.stderr)
    asyncio.run(serve(Broker(words.data, words.listen, settings, files=disk)))


if __name__ == "__main__":
    main()
