"""Where the events end, asked now and then: so that owners see tombstones while they have nothing to decide.

`Application` starts one. An owner that writes sees by its offsets that somebody else wrote; one that is idle
would keep, and show, the state of somebody who was forgotten (`headwater forget`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from headwater.client.cluster import LATEST, Cluster
from headwater.client.connection import Disconnected
from headwater.client.errors import ClientError
from headwater.events.owner import Owner

logger = logging.getLogger("headwater.events")
EVERY_S = 2.0
_TIMEOUT_MS = "3000"


class Watch:
    """Of the partitions that one application owns."""

    def __init__(
        self, topic: str, settings: Mapping[str, str], owners: Mapping[int, Owner]
    ) -> None:
        self.failures = 0
        """Looks that failed, since the start."""
        self._topic = topic
        self._owners = owners
        self._cluster = Cluster({**settings, "default.api.timeout.ms": _TIMEOUT_MS})
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._cluster.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                ends = await asyncio.to_thread(self._ends, list(self._owners))
                for partition, end in ends.items():
                    if partition in self._owners:
                        self._owners[partition].catch_up(end)
            except (ClientError, Disconnected) as error:
                self.failures += 1
                logger.warning("%s: %s", self._topic, error)
            except Exception:  # of this look; the next one may see what this one did not
                self.failures += 1
                logger.exception("%s: looking for its end failed", self._topic)

    def _ends(self, partitions: list[int]) -> dict[int, int]:
        wanted = dict.fromkeys([(self._topic, each) for each in partitions], LATEST)
        return {
            partition: end for (_, partition), end in self._cluster.list_offsets(wanted).items()
        }
