"""`headwater capture` as people run it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli import main
from tests.capture.postgres.running import Setting, eventually


@pytest.fixture
def words(setting: Setting, tmp_path: Path) -> list[str]:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    file = tmp_path / "headwater.toml"
    file.write_text(f'[capture.{setting.name}]\nfrom = "{setting.url}"\ntables = ["t"]\n')
    return [setting.name, "--file", str(file), "--bootstrap", setting.bootstrap]


def test_check_run_status_and_snapshot(
    setting: Setting, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", "check", *words]) == 0
    assert "ok     wal_level" in capsys.readouterr().out
    assert main(["capture", "status", *words]) == 0
    assert "never run" in capsys.readouterr().out

    command = [sys.executable, "-m", "headwater", "capture", "run", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        eventually("the snapshot is in the log", lambda: _count(setting) == 2)
        assert main(["capture", "snapshot", setting.name, "t", *words[1:]]) == 0
        eventually("the table is read again", lambda: _count(setting) == 4)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "streaming" in said and "stopped after 4 rows" in said
    capsys.readouterr()
    assert main(["capture", "status", *words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["position"]["lsn"] > 0 and shown["lag_bytes"] >= 0


def test_a_failed_check_and_a_table_that_is_not_captured_are_said(
    setting: Setting, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    setting.execute("CREATE TABLE keyless (v int)")
    options = ["--from", setting.url, "--table", "keyless", "--bootstrap", setting.bootstrap]
    assert main(["capture", "check", setting.name, *options]) == 1
    assert 'ALTER TABLE "public"."keyless" REPLICA IDENTITY FULL' in capsys.readouterr().out
    assert main(["capture", "snapshot", setting.name, "nowhere", *words[1:]]) == 1
    assert "public.nowhere is not captured" in capsys.readouterr().err


def _count(setting: Setting) -> int:
    try:
        return len(setting.read("t"))
    except KeyError:
        return 0


def test_a_removed_capture_leaves_nothing_and_topics_go_only_if_asked(
    setting: Setting, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    slots = f"SELECT 1 FROM pg_replication_slots WHERE database = '{setting.name}'"
    assert main(["capture", "run", *words, "--snapshot-only"]) == 0
    assert setting.execute(slots) and setting.execute("SELECT 1 FROM pg_publication")
    assert main(["capture", "remove", *words]) == 1, "nobody is here to be asked"
    assert "--yes" in capsys.readouterr().err
    assert main(["capture", "remove", *words, "--yes"]) == 0
    assert "its topics stay" in capsys.readouterr().out
    assert not setting.execute(slots) and not setting.execute("SELECT 1 FROM pg_publication")
    assert main(["capture", "status", *words]) == 0
    assert "start over" in capsys.readouterr().out
    setting.execute("DELETE FROM t WHERE id = 1")
    assert main(["capture", "run", *words, "--snapshot-only"]) == 0
    assert list(setting.fold("t")) == ['{"id": 2}'], "what went meanwhile is gone for readers too"
    assert main(["capture", "remove", *words, "--yes", "--topics"]) == 0
    assert f"{setting.name}.t" in capsys.readouterr().out
    assert main(["capture", "status", *words]) == 0
    assert "never run" in capsys.readouterr().out


def test_the_avro_schema_of_a_table_is_printed(
    setting: Setting, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(file.read_text() + 'format = "avro"\n')
    assert main(["capture", "run", *words, "--snapshot-only"]) == 0
    capsys.readouterr()
    assert main(["capture", "schema", setting.name, "t", *words[1:]]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "Envelope"
    assert main(["capture", "schema", setting.name, "none", *words[1:]]) == 1
    assert f"{setting.name}.t-value" in capsys.readouterr().err
