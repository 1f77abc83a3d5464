"""`headwater captures`: all captures of the project, also where one cannot be asked."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from headwater.testing import broker
from tests.cli.inside import Inside

PROJECT = """
[log]
bootstrap = "{bootstrap}"

[capture.shop]
from = "sqlite:shop.db"
tables = ["orders"]

[capture.away]
from = "sqlite:nowhere/at/all.db"
tables = ["orders"]
"""


@pytest.fixture
def run(capsys, monkeypatch, tmp_path: Path) -> Inside:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_BOOTSTRAP", raising=False)
    with sqlite3.connect("shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
    database.close()
    return Inside(capsys, monkeypatch)


def test_every_capture_of_the_project_is_shown_and_its_log_is_asked(run):
    with broker() as running:
        Path("headwater.toml").write_text(PROJECT.format(bootstrap=running.bootstrap))
        ran = run("captures")
        assert ran.code == 1  # one database is not there
        assert ran.out.startswith("shop: never run\n")
        assert "\naway: " in ran.out
        shop, away = json.loads(run("captures", "--json").out)
        assert (shop["capture"], shop["position"]) == ("shop", None)
        assert away.keys() == {"capture", "trouble"}
        assert run("topics", "list").code == 0  # the project's log, without --bootstrap


def test_that_no_broker_answers_is_said_at_once(run):
    Path("headwater.toml").write_text(PROJECT.format(bootstrap="127.0.0.1:1"))
    ran = run("captures")
    assert (ran.code, ran.out) == (1, "")
    assert "no broker answers at 127.0.0.1:1" in ran.err


def test_a_folder_without_a_project_is_said(run):
    ran = run("captures")
    assert ran.code == 1
    assert "there is no headwater.toml" in ran.err
