"""Running a broker as a process: event loop, signals, the ready line. `headwater broker` comes here."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.log.descriptors import raise_limit
from headwater.log_limit import limit_logs

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def run(
    data: Path | str,
    listen: str | None = None,
    advertise: str | None = None,
    durability: str | None = None,
    settings: Mapping[str, object] | None = None,
    log_level: str = "info",
) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    logging.basicConfig(
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    limit_logs()
    before, now = raise_limit()
    logging.getLogger("headwater.broker").debug("may open %d files (%d before)", now, before)
    import headwater.only_kio  # noqa: F401 (before anything that needs kio)
    from headwater.broker.broker import Broker

    # Requests are freed by reference counting; looking for cycles after every few hundred objects
    # costs more than it finds.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    broker = Broker(data, listen, settings, durability, advertise)
    os.umask(int(str(broker.settings.get("headwater.umask")), 8))
    try:
        import uvloop
    except ImportError:  # not to be had on this platform
        asyncio.run(_serve(broker))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(broker))
    return 0


def _unusable(data: Path, error: OSError) -> HeadwaterError:
    """Why a broker cannot start on this folder, and what to do about it."""
    why = error.strerror or str(error)
    if error.filename is not None and Path(str(error.filename)) != data:
        why += f" ({error.filename})"
    hint = f"`headwater check {data}` says what is wrong with it."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Make room on its disk, and start the broker again."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        hint = "Choose a folder that you may write to with --data."
    return HeadwaterError(f"the data folder {data} cannot be used: {why}.", hint=hint)


async def _serve(broker: Broker) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(broker.supervisor.stray)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if any(listener.encrypted for listener in broker.socket_server.listeners):
        loop.add_signal_handler(
            signal.SIGHUP, broker.socket_server.reload
        )  # read the certificates again
    try:
        async with broker:
            print(f"headwater: ready at {broker.bootstrap}, data in {broker.data}", flush=True)
            await stopped.wait()
    except OSError as error:
        raise _unusable(broker.data, error) from error
    print(f"headwater: stopped, {_state_on_disk(broker)}", flush=True)


def _state_on_disk(broker: Broker) -> str:
    if broker.stopped_cleanly:
        return "everything is on disk"
    return (
        "but not everything could be written (the log says what and why); the next start reads the "
        "ends of the partitions again"
    )
