"""`headwater broker` with few descriptors: `python -m tests.broker.few_files SOFT HARD --data …`."""

from __future__ import annotations

import resource
import runpy
import sys

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
    sys.argv[1:3] = ["broker"]
    runpy.run_module("headwater", run_name="__main__")
