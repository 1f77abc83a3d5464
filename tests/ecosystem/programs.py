"""Programs of others as processes, as docs/ecosystem.md shows them.

Apache Kafka's own by their jars, those in Python in an environment of their own.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from headwater.pipelines import maven
from headwater.testing.kafka_jars import KAFKA_VERSION, QUICK_JVM
from tests.compat.missing import CANNOT, skip_or_fail
from tests.compat.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 240.0
"""A JVM that starts beside three other workers' takes its time."""
_JARS = (
    *(("org.apache.kafka", name, KAFKA_VERSION) for name in (
        "kafka-streams", "connect-runtime", "connect-file", "connect-mirror",
    )),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)  # fmt: skip


class Program:
    """One that runs; what it says is in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def until(self, question: Callable[[], object], what: str) -> None:
        """Ask until it is so; a program that has ended will not do it any more."""

        def asked() -> object:
            code = self.process.poll()
            assert code is None, f"it ended with {code}: {self.said[-3000:]}"
            return question()

        try:
            until(asked, what, PATIENCE_S, 0.1)
        except AssertionError as late:
            raise AssertionError(f"{late}; it said: {self.said[-3000:]}") from None

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@contextlib.contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[Program]:
    """The command as a process of its own, which is gone at the end."""
    with log.open("ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
    try:
        yield Program(process, log)
    finally:
        process.kill()
        process.wait()


def java(*words: str) -> list[str]:
    """A command that has Kafka's programs on its class path."""
    return [
        "java", *QUICK_JVM, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{_programs()}/*", *words,
    ]  # fmt: skip


def _programs() -> Path:
    if shutil.which("javac") is None:
        skip_or_fail(f"Kafka's programs {CANNOT}: sudo apt-get install default-jdk-headless")
    try:
        return maven.fetched(f"kafka-programs-{KAFKA_VERSION}", _JARS)
    except maven.NotFetched as error:
        skip_or_fail(f"Kafka's programs {CANNOT}: {error.args[0]}")
        raise AssertionError("unreachable") from error


def python_of(folder: Path, *packages: str) -> str:
    """The Python of a fresh environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True
    )
    if done.returncode:
        skip_or_fail(f"{packages[0]} {CANNOT}: {done.stderr[-500:]}")
    return python


def of_page(section: str, replaced: Mapping[str, str]) -> str:
    """The snippet of a section of docs/ecosystem.md with other addresses and names; each must be in it."""
    _, _, below = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    found = _FENCE.search(below.partition("\n## ")[0])
    assert found is not None, f"no snippet below {section!r}"
    text = found[1]
    for old, new in replaced.items():
        assert old in text, f"{old!r} is not in the snippet of {section!r}"
        text = text.replace(old, new)
    return text


def written(path: Path, text: str, **more: object) -> str:
    """A file of properties, with more of them than a page need say; `_` is a dot."""
    lines = (f"{name.replace('_', '.')}={value}" for name, value in more.items())
    path.write_text("\n".join((text, *lines, "")), encoding="utf-8")
    return str(path)
