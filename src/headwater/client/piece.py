"""What `fetch`, and files that a reader can see itself, hand to the decoder: bytes as they are stored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Piece(NamedTuple):
    """Whole batches (the last may be cut off), and the aborted transactions that they touch."""

    data: NDArray[np.uint8]
    aborted: list[tuple[int, int, int | None]]
