"""The client that a process keeps for all who have the same settings."""

from __future__ import annotations

import subprocess
import sys

from headwater.testing import broker

_ASKS = """
import os, sys
from headwater.client.cluster import cluster
settings = {"bootstrap.servers": sys.argv[1]}
cluster(settings).metadata([])
child = os.fork()
if child == 0:
    cluster(settings).metadata([])
    sys.exit()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_connections_are_closed_by_the_process_that_ends_and_by_a_fork_of_it():
    with broker() as running:
        asks = [sys.executable, "-W", "error", "-c", _ASKS, running.bootstrap]
        ran = subprocess.run(asks, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
