"""A topic that is deleted while the broker works on it is an everyday thing, and no failure."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import serving
from tests.compat.asking import produce
from tests.compat.batches import batch


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_log_that_is_deleted_while_it_is_synced(data: Path, is_deleted: bool) -> None:
    disk = HandDisk()
    with serving(data, files=disk, durability="os") as broker, broker.wire() as wire:
        broker.create("orders")
        produce(wire, "orders", batch([(None, b"one")]))
        logs = broker.broker.store.logs
        log = logs["orders", 0]

        def sync(path: Path) -> None:
            if is_deleted:
                logs.pop(("orders", 0), None)
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))

        end = disk.on("sync", sync, "orders-0/*.log")
        try:
            if is_deleted:
                broker.call(broker.broker.store.sync_lazy)
            else:
                with pytest.raises(OSError, match="no such file"):
                    broker.call(broker.broker.store.sync_lazy)
        finally:
            end()
            logs["orders", 0] = log
