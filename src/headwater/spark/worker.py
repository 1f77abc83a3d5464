"""What a Python worker of Spark's, and the driver where it reads itself, must know about itself.

Spark's workers run Python's cyclic garbage collector, in full, after every task and every question of the
planner. With numba, pyarrow, pandas and a client library imported that is a tenth of a second each time,
spent on looking at modules that nobody will ever let go of: more than a micro-batch's own work.
"""

from __future__ import annotations

import atexit
import gc
import os

_settled = -1


def settle() -> None:
    """Call when everything is imported: what is there now is not looked at again in this process."""
    global _settled
    if _settled != os.getpid():
        _settled = os.getpid()
        gc.collect()
        gc.freeze()
        # Or DuckDB's binding finds its objects alive at the end, and tells a page about it.
        atexit.register(gc.unfreeze)
