"""The process that Spark's Python workers are forked from, with what each of them needs imported once.

Started by Spark in place of its own (`spark.python.daemon.module`), which imports nothing: every worker then
loads pyarrow, numba and the decoder for itself, two seconds of CPU, and a project starts several. A
process may be forked only while it has one thread, so the two libraries that would start one are told not to.
What a user's function imports is imported in its worker, as ever.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

MODULES = (
    "pyspark.worker",
    "headwater.client.decode.columns",
    "headwater.spark.source.task",
    "headwater.spark.source.output",
    "headwater.spark.sink.rows",
)
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def preload() -> None:
    """Import what reads the log, what writes to it, and what Spark's worker is made of."""
    os.environ.update(_NO_THREADS)  # read by the libraries as they are loaded
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()  # nobody lets go of modules: pages that are not looked at again stay shared


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
