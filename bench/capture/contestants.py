"""headwater and Debezium behind one small face: begin, stop, and what the process has used."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.capture import debezium
from bench.capture.databases import TABLE, Database


class Contestant:
    """One way to capture one database into one broker."""

    def __init__(self, kind: str, server: Database, database: str, bootstrap: str, folder: Path):
        self.kind = kind
        self.database = database
        self._server = server
        self._bootstrap = bootstrap
        self._folder = folder
        # Both write 4 partitions, the broker's default here.
        own = f"{database}.{TABLE}"
        self.topic = own if kind == "headwater" else server.debezium_topic(database)

    @contextmanager
    def running(self) -> Iterator[psutil.Process]:
        process = self._start()
        try:
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        log = self._folder / f"{self.database}.log"
        if self.kind == "headwater":
            file = self._folder / f"{self.database}.toml"
            file.write_text(
                f'[capture.{self.database}]\nfrom = "{self._server.url(self.database)}"\n'
                f'tables = ["{TABLE}"]\ntransactions = false\n{self._server.settings}'
            )
            words = [sys.executable, "-m", "headwater", "capture", "run", self.database]
            words += ["--file", str(file), "--bootstrap", self._bootstrap]
            with log.open("ab") as output:
                return subprocess.Popen(words, stdout=output, stderr=output)
        poll_ms = "5" if self.kind.endswith("5 ms") else "500"
        properties = self._server.debezium(self.database, self._folder, poll_ms)
        return debezium.start(properties, self._bootstrap, log)

    def said(self) -> str:
        return (self._folder / f"{self.database}.log").read_text(errors="replace")[-2000:]
