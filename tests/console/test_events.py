"""What a browser sends over its websocket, written by hand: whose page it reaches, and what is logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from headwater.console.events import UNOPENED_MAX
from headwater.project.hello import page_answers
from headwater.project.websocket_protocol import PAGES
from tests.console.running import console

pytestmark = pytest.mark.timeout(900)
LIGHT = '"icon":"light_mode"'


class Browser:
    """One page with its open websocket."""

    def __init__(self, url: str, number: int, cookie: str = "") -> None:
        place = urlsplit(url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        connection.request("GET", "/", headers={"Accept": "text/html", "Cookie": cookie})
        self.html = connection.getresponse().read().decode()
        connection.close()
        found = re.search(r"client_id\W+([0-9a-f-]{36})", self.html)
        assert found is not None
        self.page = found[1]
        asked = {
            "EIO": 4,
            "transport": "websocket",
            "client_id": self.page,
            "implicit_handshake": "true",
            "tab_id": f"tab {number}",
            "document_id": f"document {number}",
            "next_message_id": 0,
        }
        self.address = f"ws://{place.netloc}/_nicegui_ws/socket.io/?{urlencode(asked)}"
        self.cookie = {"Cookie": cookie}
        self.socket: ClientConnection

    @contextmanager
    def open(self) -> Iterator[Browser]:
        with connect(self.address, proxy=None, additional_headers=self.cookie) as self.socket:
            assert str(self.socket.recv(60)).startswith("0")
            self.socket.send("40")
            self.until('"sid"')
            yield self

    def is_there(self) -> bool:
        """Whether the page still is: of one that is gone the websocket is told to load another."""
        with connect(self.address, proxy=None, additional_headers=self.cookie) as socket:
            socket.recv(60)
            socket.send("40")
            heard = ""
            while '"sid"' not in heard and not heard.startswith("44"):
                heard = str(socket.recv(60))
            return '"sid"' in heard

    def say(self, event: str, said: object) -> None:
        self.socket.send("42" + json.dumps([event, said]))

    def until(self, words: str, seconds: float = 60) -> None:
        """Raises TimeoutError where nothing more comes."""
        heard = ""
        while words not in heard:
            heard = str(self.socket.recv(seconds))
            if heard == "2":
                self.socket.send("3")

    def listener(self, kind: str) -> dict[str, object]:
        """An event of the page as a whole."""
        found = re.search(rf'"type":"{kind}"[^{{}}]*?"listener_id":"([^"]+)"|'
                          rf'"listener_id":"([^"]+)"[^{{}}]*?"type":"{kind}"', self.html)  # fmt: skip
        assert found is not None
        element = re.findall(r'"(\d+)":\{', self.html[: found.start()])[-1]
        own = {"client_id": self.page, "id": int(element)}
        return {**own, "listener_id": found[1] or found[2]}

    def click_on_colours(self) -> dict[str, object]:
        """The event of the button that goes on to light, then to dark."""
        element = re.search(r'"(\d+)":\{[^{}]*"props":\{[^{}]*"icon":"brightness_auto"', self.html)
        assert element is not None
        listener = re.compile(r'"type":"click"[^{}]*?"listener_id":"([^"]+)"|'
                              r'"listener_id":"([^"]+)"[^{}]*?"type":"click"')  # fmt: skip
        found = listener.search(self.html, element.start())
        assert found is not None
        return {
            "client_id": self.page,
            "id": int(element[1]),
            "listener_id": found[1] or found[2],
            "args": ["{}"],
        }


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    with console("--bootstrap", "127.0.0.1:1", folder=tmp_path) as url:
        yield url


def test_an_event_counts_on_the_websocket_of_its_own_page_only(site: str) -> None:
    with Browser(site, 1).open() as mine, Browser(site, 2).open() as other:
        other.say("event", mine.click_on_colours())
        other.say("event", other.click_on_colours())
        other.until(LIGHT)
        with pytest.raises(TimeoutError):  # it was heard before the other's own, or not at all
            mine.until(LIGHT, 1)
        mine.say("event", mine.click_on_colours())
        mine.until(LIGHT)


def test_what_a_browser_tells_of_itself_is_not_logged_and_odd_events_are_not_heard(
    site: str, tmp_path: Path
) -> None:
    with Browser(site, 1).open() as mine:
        mine.say("log", {"client_id": mine.page, "level": "error", "message": "of a\nstranger"})
        odd: list[object] = [{}, [], "x", {"client_id": {}}, {"client_id": mine.page}]
        click = mine.click_on_colours()
        odd += [{**click, "args": 7}, {**click, "args": ["{"]}, {**click, "id": []}]
        for each in odd:
            for event in ("event", "ack", "javascript_response", "log"):
                mine.say(event, each)
        mine.say("event", click)
        mine.until(LIGHT)
    said = (tmp_path / "console.txt").read_text()
    assert "stranger" not in said and "Traceback" not in said


def flood(socket: ClientConnection) -> None:
    for _ in range(100):
        socket.send("42" + "x" * (PAGES.message_bytes // 2))


@pytest.mark.parametrize("kind", ["sub_pages_open", "sub_pages_navigate"])
def test_an_address_without_end_is_not_looked_for(site: str, kind: str) -> None:
    """Of 240,000 words each beginning was tried as each page's address, while everybody waited for hours."""
    with Browser(site, 1).open() as mine, Browser(site, 2).open() as other:
        for path in ("/a" * 240_000, "/topics?" + "a" * 400_000, "/parts", 7, ["/"], None):
            mine.say("event", {**mine.listener(kind), "args": [json.dumps(path)]})
        other.say("event", other.click_on_colours())
        other.until(LIGHT)
        mine.say("event", mine.click_on_colours())
        mine.until(LIGHT)


def test_a_request_for_an_address_without_end_is_refused(site: str) -> None:
    place = urlsplit(site)
    for path, status in (("/a" * 5_000, 414), ("/topics/" + "a" * 500, 200)):
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        connection.request("GET", path)
        assert connection.getresponse().status == status
        connection.close()


def test_a_browser_that_sends_without_end_is_cut_off(site: str) -> None:
    with Browser(site, 1).open() as mine:
        with pytest.raises(ConnectionClosed):
            flood(mine.socket)
        assert page_answers(urlsplit(site).netloc, 60.0)


def test_a_visitor_who_asks_for_pages_without_end_holds_a_few(tmp_path: Path) -> None:
    token = {"HEADWATER_CONSOLE_TOKEN": "a token of some length"}
    words = ("--bootstrap", "127.0.0.1:1")
    with console(*words, folder=tmp_path, environment=token) as site:
        cookie = signed_in(site, token["HEADWATER_CONSOLE_TOKEN"])
        opened = Browser(site, 1, cookie)
        with opened.open():
            first = Browser(site, 2, cookie)
            pages = [Browser(site, 3 + number, cookie) for number in range(UNOPENED_MAX)]
            with pages[-1].open() as last:
                last.say("event", last.click_on_colours())
                last.until(LIGHT)
            opened.say("event", opened.click_on_colours())
            opened.until(LIGHT)  # it is looked at, and was not taken for one of those
            assert not first.is_there()


def signed_in(site: str, token: str) -> str:
    place = urlsplit(site)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": site}
    connection.request("POST", "/login", urlencode({"token": token}), form)
    cookie = connection.getresponse().headers["Set-Cookie"].partition(";")[0]
    connection.close()
    return cookie
