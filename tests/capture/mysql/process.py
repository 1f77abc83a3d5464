"""A capture in a process of its own, so that it can be killed: python -m tests.capture.mysql.process"""

from __future__ import annotations

import json
import sys

from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner


def main() -> None:
    name, url, bootstrap, options = sys.argv[1:]
    config = CaptureConfig(name, url, bootstrap=bootstrap, options=json.loads(options))
    Runner(config, lambda sentence: print(sentence, flush=True), heartbeat_s=0.2).run()


if __name__ == "__main__":
    main()
