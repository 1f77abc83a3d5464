"""A process that has settled ends without a word."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import duckdb
from headwater.spark import worker

connection = duckdb.connect()
connection.execute("SELECT 1").fetchall()
worker.settle()
connection.close()
"""


def test_a_settled_process_ends_without_a_page_about_objects_that_are_alive():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
