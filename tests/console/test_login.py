"""Signing in, over HTTP: who is let in, who is not, and with which headers everything leaves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from websockets.sync.client import connect

from tests.console.running import console

pytestmark = pytest.mark.timeout(900)
TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with a token; its log is away, which is no reason not to answer."""
    words = ("--bootstrap", "127.0.0.1:1")
    folder = tmp_path_factory.mktemp("guarded")
    with console(*words, folder=folder, environment={"HEADWATER_CONSOLE_TOKEN": TOKEN}) as url:
        yield url


def ask(url: str, method: str, path: str, body: str = "", **headers: str) -> HTTPResponse:
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


def test_a_stranger_is_sent_to_the_login_form(guarded: str) -> None:
    answer = ask(guarded, "GET", "/topics", Accept="text/html")
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert ask(guarded, "GET", "/login").status == 200
    assert ask(guarded, "GET", "/static/console.css").status == 401


def test_the_token_opens_and_a_wrong_one_does_not(guarded: str) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert ask(guarded, "POST", "/login", "token=wrong", **form).status == 403
    answer = ask(guarded, "POST", "/login", "token=a+token+of+some+length", **form)
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    inside = ask(guarded, "GET", "/", Cookie=cookie.partition(";")[0], Accept="text/html")
    assert inside.status == 200


def cookie_of(url: str) -> str:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    answer = ask(url, "POST", "/login", "token=a+token+of+some+length", **form)
    assert answer.status == 303
    return str(answer.headers["set-cookie"].partition(";")[0])


def taken_up(url: str, page: str, cookie: str) -> str:
    """What a browser hears that wants to go on with a page: Socket.IO's 40 for yes, 44 for no."""
    asked = {
        "EIO": 4,
        "transport": "websocket",
        "client_id": page,
        "implicit_handshake": "true",
        "tab_id": "a tab",
        "document_id": "a document",
        "next_message_id": 0,
    }
    address = f"ws://{urlsplit(url).netloc}/_nicegui_ws/socket.io/?{urlencode(asked)}"
    with connect(address, origin=url, additional_headers={"Cookie": cookie}, proxy=None) as socket:  # type: ignore[arg-type]
        assert str(socket.recv(60)).startswith("0")
        socket.send("40")
        return str(socket.recv(60))[:2]


def test_a_page_whose_visitor_has_left_is_taken_up_by_nobody(guarded: str) -> None:
    mine, other = cookie_of(guarded), cookie_of(guarded)
    place = urlsplit(guarded)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request("GET", "/", headers={"Cookie": mine, "Accept": "text/html"})
    found = re.search(r"client_id\W+([0-9a-f-]{36})", connection.getresponse().read().decode())
    connection.close()
    assert found is not None
    assert taken_up(guarded, found[1], mine) == "40"
    assert ask(guarded, "POST", "/logout", Cookie=mine).status == 303
    assert taken_up(guarded, found[1], other) == "44"


def test_a_form_without_end_is_not_read_to_its_end(guarded: str) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert ask(guarded, "POST", "/login", "token=" + "x" * 100_000, **form).status == 403


def test_requests_from_other_pages_and_for_other_names_are_refused(guarded: str) -> None:
    assert ask(guarded, "POST", "/login", "token=x", Origin="https://evil.example").status == 403
    assert ask(guarded, "GET", "/login", Host="evil.example").status == 403
    assert ask(guarded, "GET", "/login", Host="localhost:1").status == 200
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Version": "13",
    }
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    assert ask(guarded, "GET", path, **upgrade).status == 403
    assert ask(guarded, "GET", path, Origin="https://evil.example", **upgrade).status == 403


def test_every_answer_forbids_framing_and_loading_from_elsewhere(guarded: str) -> None:
    for path in ("/login", "/healthz", "/nothing"):
        headers = ask(guarded, "GET", path).headers
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def refused(folder: Path, *words: str, **environment: str) -> str:
    command = [sys.executable, "-m", "headwater", "console", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_a_token_only_this_machine_is_listened_to(tmp_path: Path) -> None:
    assert "without a token" in refused(tmp_path, "--listen", "0.0.0.0:0")
    empty = "token of the administrator is empty"
    assert empty in refused(tmp_path, "--token", "", "--listen", "0.0.0.0:0")
    assert empty in refused(tmp_path, HEADWATER_CONSOLE_TOKEN="")
    assert "is not HOST:PORT" in refused(tmp_path, "--listen", "nowhere")


def test_a_port_that_is_taken_is_a_sentence(guarded: str, tmp_path: Path) -> None:
    assert "cannot listen at" in refused(tmp_path, "--listen", guarded.removeprefix("http://"))
