"""A project with passwords runs, and what it writes and shows has none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.project.test_up import Up, project
from tests.views.redis.server import redis_server

WRITTEN, NAMED = "hush-written-4711", "hush-named-0815"
PIPELINE = """
import headwater as hw

def orders():
    return hw.table("shop.orders", schema="id LONG, item STRING", key="id")

@hw.view("written", key="id")
def written():
    return orders()

@hw.view("named", key="id")
def named():
    return orders()
"""


@pytest.mark.timeout(300)
def test_no_password_of_a_target_is_in_a_file_a_topic_or_a_list_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    monkeypatch.setenv("CACHE_PASSWORD", NAMED)
    with redis_server() as cache, project(tmp_path) as up:
        client = cache.client()
        client.acl_setuser(
            "a", enabled=True, passwords=[f"+{WRITTEN}"], keys="*", commands=["+@all"]
        )
        client.acl_setuser("b", enabled=True, passwords=[f"+{NAMED}"], keys="*", commands=["+@all"])
        client.acl_setuser(
            "default", enabled=True, passwords=["+open"], nopass=False, reset_passwords=True
        )
        at = f"127.0.0.1:{cache.port}"
        toml = tmp_path / "headwater.toml"
        console = f"127.0.0.1:{free_port()}"
        toml.write_text(
            f'{toml.read_text()}[pipelines]\npaths = ["pipelines"]\n[console]\nlisten = "{console}"\n'
            f'[views.written]\nto = "redis://a:{WRITTEN}@{at}/0"\n'
            f'[views.named]\nto = "redis://b:${{CACHE_PASSWORD}}@{at}/0"\n'
        )
        (tmp_path / "pipelines").mkdir()
        (tmp_path / "pipelines" / "views.py").write_text(PIPELINE)
        up.start()
        up.insert("lamp")
        rows = ("*written:*1", "*named:*1")
        until(lambda: all(map(client.keys, rows)), "the row in both views", timeout=240)
        seen = _processes(up) + _listed(up)
        assert up.end() == 0
    seen += "".join(
        path.read_bytes().decode("latin-1")
        for path in tmp_path.rglob("*")
        if path.is_file() and path != toml
    )
    assert "order" in seen and "redis://a:***@" in seen and "redis://b:${CACHE_PASSWORD}@" in seen
    assert WRITTEN not in seen and NAMED not in seen


def _processes(up: Up) -> str:
    assert up.process is not None
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 4
    words: list[str] = []
    for child in children:
        with suppress(psutil.Error):  # one that has just ended
            words += child.cmdline()
    assert any(word.startswith("written=redis://") for word in words)
    return " ".join(words)


def _listed(up: Up) -> str:
    command = [sys.executable, "-m", "headwater", "views", "--bootstrap", up.address]
    done = subprocess.run(
        command, cwd=up.folder, env=os.environ, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr
