"""An acknowledgement that accepts some records and rejects others, and a disk that refuses it once."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.broker.disks import HandDisk
from tests.broker.serving import serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.sharing import ACCEPT, REJECT, Sharer
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode


def test_what_was_rejected_in_a_refused_acknowledgement_stays_the_members(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        topic_id = broker.create("t")
        start = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        asked = {"resource_type": 32, "resource_name": "g", "configs": [start]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        for value in (b"one", b"two"):
            assert produce(wire, "t", batch([(None, value)])).error_code is ErrorCode.none
        member = Sharer(wire, "g", topic_id)
        member.join("t")
        until(lambda: member.fetch().responses, "the records")
        with disk.failing("write", code=errno.ENOSPC, name="__share_group_state-*/*.log"):
            answer = member.acknowledge((0, 0, [ACCEPT]), (1, 1, [REJECT]))
            code = answer.responses[0].partitions[0].error_code
            assert code is ErrorCode.kafka_storage_error

        def accepted() -> bool:
            answer = member.acknowledge((0, 0, [ACCEPT]), (1, 1, [ACCEPT]))
            code = answer.responses[0].partitions[0].error_code
            assert code in (ErrorCode.none, ErrorCode.kafka_storage_error), code
            return code is ErrorCode.none

        until(accepted, "the disk to take it")
