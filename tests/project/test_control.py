"""Pause, resume and restart: what people want of a part is kept, carried out, and survives restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.project import control
from headwater.project.control import BadControl, Control, Watched, asked, found_in
from headwater.project.file import load
from headwater.project.parts import Part
from headwater.project.processes import process
from headwater.project.processes.process import SupervisedPart
from tests.compat.waiting import until
from tests.project.test_up import project

NAMES = ["broker", "capture shop", "pipelines", "edges", "bridges.shop", "webhooks.billing"]


def test_a_name_is_found_by_its_end_where_that_is_plain() -> None:
    assert found_in(NAMES, "pipelines") == "pipelines"
    assert found_in(NAMES, "billing") == "webhooks.billing"
    assert found_in(NAMES, "capture shop") == "capture shop"
    with pytest.raises(BadControl, match=r"may be capture shop or bridges\.shop"):
        found_in(NAMES, "shop")
    with pytest.raises(BadControl, match="nothing here is named 'x'"):
        found_in(NAMES, "x")


def test_what_can_be_paused_are_processes_bridges_and_webhooks(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text(
        '[log]\ndata = "log"\n[capture.shop]\nfrom = "sqlite:shop.db"\ntables = ["orders"]\n[edges]\n'
        '[edges.webhooks.billing]\nfrom = "topic:orders"\nto = "https://example.org/"\nsecret = "${X}"\n'
    )
    found = control.names_of(load(tmp_path / "headwater.toml"))
    assert found == ["broker", "capture shop", "edges", "webhooks.billing"]


def test_a_view_is_one_of_them_by_its_section_or_where_it_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(
        '[log]\ndata = "log"\n[pipelines]\npaths = ["pipelines"]\n'
        '[views.totals]\nto = "sqlite:shop.db"\n'
    )
    found = load(file)
    assert "view totals" in control.names_of(found)
    assert control.named(found, "totals") == "view totals"
    assert control.named(found, "view by_hour") == "view by_hour"  # of a pipeline file
    with pytest.raises(BadControl, match="nothing here is named 'by_hour'"):
        control.named(found, "by_hour")


def test_what_is_asked_for_is_decided_without_a_disk() -> None:
    paused = asked(Control(), "edges", "pause", "User:ann", 5)
    assert paused.paused["edges"].by == "User:ann"
    with pytest.raises(BadControl, match="paused already, by User:ann"):
        asked(paused, "edges", "pause", "User:bob", 6)
    with pytest.raises(BadControl, match="is paused"):
        asked(paused, "edges", "restart", "User:bob", 6)
    again = asked(asked(paused, "edges", "resume", "b", 6), "edges", "restart", "b", 7)
    assert again.paused == {} and again.restarts["edges"].count == 1
    assert [(each.what, each.by) for each in again.history] == [
        ("pause", "User:ann"),
        ("resume", "b"),
        ("restart", "b"),
    ]
    with pytest.raises(BadControl, match="is not paused"):
        asked(again, "edges", "resume", "b", 8)


def test_it_is_kept_and_a_file_that_is_broken_changes_nothing(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.look() == Control()
    control.ask(tmp_path, "edges", "pause", "User:ann")
    assert list(watched.look().paused) == ["edges"]
    with pytest.raises(BadControl, match="the others need it"):
        control.ask(tmp_path, "broker", "pause", "User:ann")
    (tmp_path / control.FILE).write_text("{")
    assert list(watched.look().paused) == ["edges"]
    assert watched.trouble is not None and "cannot be read" in watched.trouble
    with pytest.raises(BadControl, match="cannot be read"):
        control.ask(tmp_path, "edges", "resume", "User:ann")


def part(folder: Path, script: str) -> SupervisedPart:
    """A process of Python's, whatever the part's own command is."""

    class Scripted(Part):
        @property
        def command(self) -> list[str]:
            return [sys.executable, "-c", script]

    return SupervisedPart(Scripted("edges", (), 0), folder, folder)


WAITS = "import time\nwhile True: time.sleep(60)"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n{WAITS}"


def state_of(one: SupervisedPart, folder: Path) -> str:
    one.ask(control.read(folder))
    one.step()
    return one.entry.state


def test_a_part_is_ended_stays_paused_and_goes_on(tmp_path: Path) -> None:
    one = part(tmp_path, WAITS)
    try:
        assert state_of(one, tmp_path) == "running"
        control.ask(tmp_path, "edges", "pause", "User:ann")
        until(lambda: state_of(one, tmp_path) == "paused", "the part to end")
        assert (one.entry.pid, one.entry.restarts, one.entry.asked_by) == (None, 0, "User:ann")
        control.ask(tmp_path, "edges", "resume", "User:ann")
        until(lambda: state_of(one, tmp_path) == "running", "the part to run again")
        assert (one.entry.restarts, one.entry.asked_by) == (0, None)
        before = one.entry.pid
        control.ask(tmp_path, "edges", "restart", "User:bob")
        until(lambda: state_of(one, tmp_path) == "running" and one.entry.restarts, "another")
        assert one.entry.pid != before and one.entry.reason == "restarted by User:bob"
    finally:
        one.tell_to_stop()
        one.wait_stopped(0.0)
        one.close()


def test_a_part_that_is_killed_is_not_said_to_end_by_what_it_printed_last(tmp_path: Path) -> None:
    one = part(tmp_path, STUBBORN)
    try:
        until(lambda: state_of(one, tmp_path) == "running" and one.lines() == ["up"], "the part")
        assert one.entry.pid is not None
        os.kill(one.entry.pid, signal.SIGKILL)
        until(lambda: state_of(one, tmp_path) == "waiting", "its end to be seen")
        assert one.entry.reason == "killed by SIGKILL"
    finally:
        one.wait_stopped(0.0)
        one.close()


def test_a_restart_of_an_earlier_supervisor_is_not_done_again(tmp_path: Path) -> None:
    control.ask(tmp_path, "edges", "restart", "User:bob")
    one = part(tmp_path, WAITS)
    try:
        for _ in range(3):
            assert state_of(one, tmp_path) == "running"
        assert one.entry.restarts == 0
    finally:
        one.wait_stopped(0.0)
        one.close()


def test_one_that_does_not_end_is_killed_and_a_pause_taken_back_starts_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = part(tmp_path, STUBBORN)
    try:
        state_of(one, tmp_path)
        until(lambda: "up" in one.lines(), "the process to be there")
        control.ask(tmp_path, "edges", "pause", "User:ann")
        assert state_of(one, tmp_path) == "pausing"
        control.ask(tmp_path, "edges", "resume", "User:ann")
        assert state_of(one, tmp_path) == "pausing"  # it was told to end, and does not
        monkeypatch.setattr(one, "_kill_at", 0.0)
        before = one.entry.pid
        until(lambda: state_of(one, tmp_path) == "running", "another process")
        assert one.entry.pid != before and process.STOP_PATIENCE_S > 0
    finally:
        one.wait_stopped(0.0)
        one.close()


def test_a_capture_is_paused_by_command_also_across_a_restart_of_the_project(
    tmp_path: Path,
) -> None:
    with project(tmp_path) as up:
        up.start()
        until(lambda: up.part("capture shop")["state"] == "running", "the capture to run")
        up.insert("kettle")
        until(lambda: up.items() == ["kettle"], "the row to be in the log")
        said = up.command("pause", "shop")
        assert (said.returncode, said.stdout) == (0, "capture shop: paused\n"), said.stderr
        until(lambda: up.part("capture shop")["state"] == "paused", "the capture to end")
        up.insert("lamp")
        status = up.command("status")
        assert status.returncode == 0 and "(command line)" in status.stdout
        assert up.end() == 0
        up.start()
        until(lambda: up.part("broker")["state"] == "running", "the broker to run again")
        assert up.part("capture shop")["state"] == "paused"
        assert up.items() == ["kettle"]
        assert up.command("resume", "shop").returncode == 0
        until(lambda: up.items() == ["kettle", "lamp"], "what was written meanwhile")
        refused = up.command("resume", "shop")
        assert refused.returncode == 1 and "capture shop is not paused" in refused.stderr
        assert up.command("restart", "shop").returncode == 0
        until(lambda: "restarted by" in (up.part("capture shop").get("reason") or ""), "a restart")
        told = json.loads(up.command("audit", "--json", "--bootstrap", up.address).stdout)
        parts = [(each["what"], each["name"]) for each in told if each["kind"] == "part"]
        assert parts == [(verb, "capture shop") for verb in ("pause", "resume", "restart")]
        assert isinstance(up.process, subprocess.Popen)
