"""A capture as a process of its own, to be killed: python -m … PATH BOOTSTRAP."""

from __future__ import annotations

import sys

from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner

if __name__ == "__main__":
    config = CaptureConfig(
        "shop", f"sqlite:{sys.argv[1]}", bootstrap=sys.argv[2], tables=("orders", "lines", "notes")
    )
    Runner(config, lambda sentence: print(sentence, flush=True)).run()
