"""Registry clients of other languages, unmodified: Confluent's for Java, franz-go's for Go."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from bench.java_program import built
from headwater.testing.kafka_jars import QUICK_JVM, MissingServer, find_program
from tests.compat.missing import CANNOT, skip_or_fail

HERE = Path(__file__).parent
# Confluent's client is not on Maven Central; Flink's jar has it, under a package of its own.
FLINK = ("org.apache.flink", "flink-sql-avro-confluent-registry", "1.20.0")
SLF4J = ("org.slf4j", "slf4j-nop", "1.7.36")
GO_LEAST = (1, 24)
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def subject() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def said(command: list[str], folder: Path | None = None) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_confluent_s_client_for_java_finds_all_as_it_expects(registry: str, subject: str):
    try:
        jars = built("registry-client-7.5.3", [FLINK, SLF4J], HERE / "RegistryClient.java")
        java = find_program("java", "openjdk-17-jre-headless")
    except MissingServer as missing:
        skip_or_fail(f"Confluent's client for Java {CANNOT}: {missing}")
    command = [java, *QUICK_JVM, "-cp", f"{jars}:{jars}/*", "RegistryClient", registry, subject]
    found = said(command)
    assert json.loads(found.pop("text")) == ORDER
    assert found == {
        "same": True,
        "version": 1,
        "fits": False,
        "refused": 40901,
        "unknown": 40401,
        "versions": [1, 2],
        "level": "NONE",
        "references": 1,
        "deleted": [1, 2],
        "gone": True,
    }


def test_franz_go_s_client_finds_all_as_it_expects(registry: str, subject: str, tmp_path: Path):
    go = shutil.which("go")
    told = (
        "" if go is None else subprocess.run([go, "version"], capture_output=True, text=True).stdout
    )
    version = re.search(r"go(\d+)\.(\d+)", told)
    if go is None or version is None or tuple(map(int, version.groups())) < GO_LEAST:
        pytest.skip(f"franz-go's client wants Go {'.'.join(map(str, GO_LEAST))}")
    for path in (HERE / "go_client").iterdir():
        shutil.copy(path, tmp_path)
    found = said([go, "run", ".", registry, subject], tmp_path)
    first, again = found["first"], found["again"]
    assert first == again
    assert json.loads(found["by id"]) == ORDER
    assert (found["looked up"], found["second"]) == (1, 2)
    assert subject in found["uses"]  # and perhaps of other tests
    assert (found["fits"], found["refused"], found["level"]) == (False, 40901, "NONE")
    assert (found["references"], found["referenced by"]) == (1, f"{subject}-proto")
    assert (found["json"], found["types"]) == ("JSON", 3)
    assert found["deleted"] == [1, 2]
    assert subject not in found["subjects"]
    assert {f"{subject}-proto", f"{subject}-json"} <= set(found["subjects"])
