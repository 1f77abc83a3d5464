"""Sarama's command-line tools, built by Go: what one writes the other reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.cluster import Cluster
from tests.compat.missing import CANNOT, skip_or_fail
from tests.ecosystem.programs import of_page, running

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_what_is_produced_is_consumed(
    cluster: Cluster, new_name: Callable[[], str], tmp_path: Path
) -> None:
    named = {"127.0.0.1:9092": cluster.bootstrap, "greetings": cluster.create_topic(new_name())}
    *installs, produce, consume = of_page("Sarama's tools", named).strip().splitlines()
    _run(installs, tmp_path)
    sent = subprocess.run(
        [tmp_path / produce.split()[0], *produce.split()[1:]], capture_output=True, text=True
    )
    assert sent.returncode == 0, sent.stderr
    tool, *words = consume.split()
    with running([str(tmp_path / tool), *words], tmp_path / "log") as reader:
        reader.until(lambda: "hello" in reader.said, "the record to be read")
        assert "world" in reader.said


def _run(installs: list[str], folder: Path) -> None:
    if shutil.which("go") is None:
        skip_or_fail(f"sarama's tools {CANNOT}: sudo apt-get install golang-go")
    for each in installs:
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        done = subprocess.run(each.split(), capture_output=True, text=True, env=environment)
        if done.returncode:
            skip_or_fail(f"sarama's tools {CANNOT}: {done.stderr.strip()[-300:]}")
