"""How much CPU one comparison of two schemas may take, wherever it is made.

The registry compares in processes of their own (`sandbox`). Whoever reads values does it where it is, and all
else there would wait.
"""

from __future__ import annotations

import time

from headwater.schemas.errors import InvalidSchema

CPU_S = 4.0
"""Less than the sandbox has: this ends in a sentence."""
STEPS_MAX = 50_000
"""Of two JSON Schemas, whose alternatives are compared each with each."""


class Effort:
    """Of one comparison, in one thread."""

    def __init__(self) -> None:
        self._until_s = time.thread_time() + CPU_S

    def step(self) -> None:
        """Raises InvalidSchema."""
        if time.thread_time() > self._until_s:
            raise InvalidSchema("The schema takes too long to be compared with the others")


class Work:
    """Of two JSON Schemas: shared by a comparison and those inside of it."""

    def __init__(self) -> None:
        self.open: set[tuple[int, int]] = set()
        """Pairs of schemas that are being compared."""
        self.look = Effort().step
        """For what is no step of its own."""
        self._steps = 0

    def step(self) -> None:
        """Raises InvalidSchema."""
        self.look()
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema(
                "The schema has too many alternatives to be compared with the others"
            )
