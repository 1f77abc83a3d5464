"""Signing in as a user of the broker, and what each role sees and may: all of it real, and a browser."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from headwater.client import topics, users
from headwater.client.log import Log
from tests.console.running import console, look
from tests.security import servers
from tests.security.servers import Certificates

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(900)
USERS = {
    "root": "root pw",
    "rita": "rita pw",
    "olga": "olga pw",
    "anton": "anton pw",
    "out": "o",
}
FILE = """
[log]
bootstrap = "{bootstrap}"
[console]
session_minutes = 5
[console.tokens]
reader = "${{POND}}"
[console.users]
rita = "reader"
olga = "operator"
anton = "administrator"
"""


class Site(NamedTuple):
    url: str
    bootstrap: str
    """Plain, for the test itself."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("roles")
    certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
    with servers.headwater(certificates, tmp_path_factory.mktemp("broker")) as broker:
        secured = broker.listeners["SASL_PLAINTEXT"]
        with Log(broker.bootstrap) as log:
            topics.create(log.admin, "orders", 2)
            for name, password in USERS.items():
                mechanism = "SCRAM-SHA-256" if name == "olga" else "SCRAM-SHA-512"
                users.put(log.admin, name, password, [mechanism], 4096)
        client = folder / "client.properties"
        client.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            "sasl.username=root\nsasl.password=root pw\n"
        )
        (folder / "headwater.toml").write_text(FILE.format(bootstrap=secured))
        environment = {"HEADWATER_CLIENT_CONFIG": str(client), "POND": "pond"}
        with console(folder=folder, environment=environment) as url:
            yield Site(url, broker.bootstrap)


def ask(
    url: str, method: str, path: str, cookie: str = "", **form: str
) -> http.client.HTTPResponse:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    headers = {"Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded"}
    try:
        connection.request(method, path, urlencode(form), headers | {"Cookie": cookie})
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


def signed_in(site: Site, user: str) -> str:
    answer = ask(site.url, "POST", "/login", user=user, token=USERS[user])
    assert answer.status == 303, user
    return str(answer.headers["set-cookie"])


def test_the_brokers_users_come_in_with_their_password_and_nobody_else(site: Site) -> None:
    for user in ("rita", "olga", "anton"):
        cookie = signed_in(site, user)
        assert "Max-Age=300" in cookie
        assert ask(site.url, "GET", "/topics", cookie.partition(";")[0]).status == 200
    wrong = [
        ("rita", "wrong"),
        ("rita", ""),
        ("nobody", "rita pw"),
        ("out", USERS["out"]),
        ("*", "o"),
    ]
    for user, password in wrong:
        assert ask(site.url, "POST", "/login", user=user, token=password).status == 403, user


def test_whoever_has_left_is_a_stranger_again(site: Site) -> None:
    cookie = signed_in(site, "rita").partition(";")[0]
    other = signed_in(site, "rita").partition(";")[0]
    assert ask(site.url, "POST", "/logout", cookie).headers["location"] == "/login"
    assert ask(site.url, "GET", "/topics", cookie).status == 303
    assert ask(site.url, "GET", "/topics", other).status == 200


def test_the_logs_own_topics_are_shown_to_administrators_and_published_to_by_nobody(
    site: Site,
) -> None:
    def shown(user: str, path: str) -> str:
        cookie = signed_in(site, user).partition(";")[0]
        asked = urllib.request.Request(f"{site.url}{path}", headers={"Cookie": cookie})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(answer.read().decode())

    own = "__headwater_changes"
    for path in (f"/topics/{own}", f"/time-travel?topic={own}", f"/dead-letters?topic={own}"):
        for user in ("rita", "olga"):
            assert "takes the role of administrator" in shown(user, path), (user, path)
        assert "takes the role of administrator" not in shown("anton", path), path
    assert "Publish record" not in shown("anton", f"/topics/{own}")
    assert "Publish record" in shown("olga", "/topics/orders")


def sign_in(page: Page, site: Site, user: str) -> None:
    page.goto(f"{site.url}/login")
    page.get_by_label("User (none for a token)").fill(user)
    page.get_by_label("Password or token").fill(USERS.get(user, "pond"))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{site.url}/")


@pytest.mark.parametrize("user", ["rita", ""])
def test_a_reader_sees_no_button_that_changes_something_and_is_refused_all_the_same(
    site: Site, browser: Browser, user: str
) -> None:
    from playwright.sync_api import expect

    with look(browser, viewport={"width": 1440, "height": 900}) as page:
        sign_in(page, site, user)
        page.goto(f"{site.url}/topics/orders")
        expect(page.get_by_role("heading", name="orders")).to_be_visible()
        expect(page.get_by_role("button", name="Publish")).to_have_count(0)
        # Whoever presses it all the same, with the tools of his browser, meets the server.
        hidden = page.locator(".hw-never button", has_text="Publish").first
        hidden.dispatch_event("click")
        expect(page.get_by_text("takes the role of operator")).to_be_visible()


def test_an_operator_publishes_and_leaving_ends_every_tab(site: Site, browser: Browser) -> None:
    from playwright.sync_api import expect

    with look(browser, viewport={"width": 1440, "height": 900}) as page:
        sign_in(page, site, "olga")
        page.goto(f"{site.url}/topics/orders")
        page.get_by_role("button", name="Publish").first.click()
        page.get_by_label("Value", exact=True).fill("a record")
        page.get_by_role("button", name="Publish record").click()
        expect(page.get_by_text("Published: record")).to_be_visible()
        other = page.context.new_page()
        with other.expect_websocket() as socket:
            other.goto(f"{site.url}/topics")
        expect(other.get_by_role("link", name="orders")).to_be_visible()
        with socket.value.expect_event("close"):
            page.get_by_role("button", name="olga, operator").click()
            page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{site.url}/login")
