"""A broker process whose disk is slow: `python -m tests.broker.slow_disk SECONDS --data … --listen …`.

Every sync of a topic's records takes that long. Otherwise it is `headwater broker`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from pathlib import Path

from headwater.broker.broker import Broker
from tests.broker.disks import HandDisk


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    for option in ("--data", "--listen"):
        parser.add_argument(option)
    parser.add_argument("--set", action="append", default=[])
    words = parser.parse_args()
    disk = HandDisk()

    def wait(path: Path) -> None:
        time.sleep(words.seconds)

    disk.on("sync", wait, "t-?/*.log")
    settings = dict(each.split("=", 1) for each in words.set)
    asyncio.run(serve(Broker(words.data, words.listen, settings, files=disk)))


async def serve(broker: Broker) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with broker:
        print(f"headwater: ready at {broker.bootstrap}, data in {broker.data}", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    main()
