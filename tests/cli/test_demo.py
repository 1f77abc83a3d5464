"""`headwater demo` does what it says, and says whether it worked by its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_demo_survives_its_kill_and_verifies(headwater, tmp_path: Path):
    ran = headwater("demo", "--records", "20000", "--json", "--no-shop")
    assert (ran.code, ran.err) == (0, "")
    summary = ran.json()
    assert summary["verified"] is True
    assert summary["produced"] == summary["acknowledged"] == summary["replayed"] == 20000
    assert summary["lost"] == summary["duplicated"] == summary["out_of_order"] == 0
    assert summary["data"] is None


def test_a_given_folder_is_kept_and_may_be_used_again(headwater, tmp_path: Path):
    for _ in range(2):
        ran = headwater(
            "demo", "--records", "5000", "--data", "kept", "--durability", "os", "--no-shop"
        )
        assert ran.code == 0, ran.out + ran.err
        assert "Verified: every acknowledged record came back" in ran.out
        assert "MB in kept" in ran.out
    assert list((tmp_path / "kept").glob("demo-*-0/*.log"))


def test_without_a_terminal_the_output_is_plain_lines(headwater):
    ran = headwater("demo", "--records", "2000", "--no-shop")
    assert ran.code == 0, ran.out + ran.err
    assert "\x1b" not in ran.out
    # On a slow machine a step may report more than once.
    names = list(dict.fromkeys(line.split(":")[0] for line in ran.out.splitlines()))
    assert names[:4] == [
        "Starting the broker",
        "Producing",
        "Replaying from offset 0",
        "Stopping the broker",
    ]
    assert "Durability" in names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_ended_early_leaves_nothing_behind(tmp_path: Path, number: signal.Signals):
    words = [sys.executable, "-u", "-m", "headwater", "demo", "--records", "5000000", "--no-shop"]
    with subprocess.Popen(
        words,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        next(line for line in demo.stdout if line.startswith("Producing"))
        assert list(tmp_path.glob("headwater-demo-*"))
        demo.send_signal(number)
        demo.stdout.read()
        assert "Traceback" not in demo.stderr.read()
    assert demo.returncode == 130
    assert not list(tmp_path.glob("headwater-demo-*"))


def test_a_folder_that_cannot_be_used_is_one_sentence(headwater, tmp_path: Path):
    (tmp_path / "file").write_text("")
    ran = headwater("demo", "--data", "file")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("headwater: the broker ended with code 1")


def test_a_database_that_is_no_postgresql_is_refused_before_anything_starts(headwater):
    ran = headwater("demo", "--database", "mysql://somewhere/shop")
    assert ran.code == 2
    assert "--database takes postgresql://" in ran.err
