"""Java that is begun before the session is made: it is that session's, and as it would be otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import re, signal, sys
from pathlib import Path
from pyspark import SparkContext
from headwater.pipelines.session import launch, session

words = {"settings": {"spark.driver.memory": "600m"}, "log_file": Path("spark.log")}
launch("local[1]", **words)
made = session("local[1]", **words)
java = SparkContext._gateway.proc.pid
status = Path(f"/proc/{java}/status").read_text()
ignored = int(re.search("SigIgn:\\\\s*([0-9a-f]+)", status)[1], 16)
assert ignored >> (signal.SIGTERM - 1) & 1, "a supervisor's SIGTERM would end it before its queries"
memory = made._jvm.Runtime.getRuntime().maxMemory() // 2**20
print(made.range(3).count(), made.conf.get("spark.sql.session.timeZone"), memory < 700)
made.stop()
"""


def test_a_session_takes_the_java_that_was_begun_for_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["3", "UTC", "True"], done.stderr
    assert (tmp_path / "spark.log").stat().st_size > 0


def test_what_fails_in_the_beginning_is_told_when_the_session_is_made(tmp_path: Path) -> None:
    program = (
        "from headwater.pipelines.session import launch, session\n"
        "words = {'settings': {'spark.driver.memory': 'much'}}\n"
        "launch('local[1]', **words)\n"
        "session('local[1]', **words)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert "Spark did not start with master local[1]" in done.stderr
