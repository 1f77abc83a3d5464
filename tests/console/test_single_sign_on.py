"""Signing in to the console by an issuer: in a browser, and by strangers who would be somebody else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from headwater.console.guesses import TRIES_MAX
from headwater.project.file import load
from headwater.project.ports import free_port
from headwater.testing.issuer import Issuer, issuer
from tests.console.running import PATIENCE_MS, console, look

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.timeout(900)
FILE = """
[log]
bootstrap = "127.0.0.1:1"
[console]
session_minutes = 30
[console.tokens]
reader = "${READER_TOKEN}"
[console.oidc]
issuer = "ISSUER"
client_id = "shop"
client_secret = "${CLIENT_SECRET}"
address = "http://ADDRESS"
[console.oidc.groups]
ops = "operator"
admins = "administrator"
[console.oidc.users]
bob = "reader"
"""
SECRETS = {"CLIENT_SECRET": "shops-Secret", "READER_TOKEN": "a reader's token"}


@pytest.fixture(scope="module")
def idp() -> Iterator[Issuer]:
    with issuer() as found:
        yield found


@pytest.fixture(scope="module")
def url(idp: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, address = tmp_path_factory.mktemp("console"), f"127.0.0.1:{free_port()}"
    (folder / "headwater.toml").write_text(
        FILE.replace("ISSUER", idp.url).replace("ADDRESS", address)
    )
    with console(folder=folder, environment=SECRETS, listen=address) as found:
        yield found


@pytest.fixture(autouse=True)
def person(idp: Issuer) -> None:
    idp.person, idp.groups, idp.of_id = "ann", ["ops"], {}


def ask(url: str, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer
    finally:
        connection.close()


def begun(url: str) -> tuple[str, str]:
    """Where the browser is to go, and the cookie of this sign-in."""
    answer = ask(url, "/login/oidc")
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/login" in cookie
    return answer.headers["Location"], cookie.partition(";")[0]


def back(where: str) -> str:
    """The path to which the issuer sends the browser back."""
    parts = urlsplit(where)
    found = urlsplit(
        ask(f"http://{parts.netloc}", f"{parts.path}?{parts.query}").headers["Location"]
    )
    return f"{found.path}?{found.query}"


def session_of(answer: HTTPResponse) -> str | None:
    cookies = answer.headers.get_all("Set-Cookie") or []
    found = [each for each in cookies if each.startswith("headwater_console=")]
    return found[0].partition(";")[0] if found else None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_a_person_signs_in_and_out_in_a_browser(
    url: str, browser: Browser, scheme: str, width: int, tmp_path: Path
):
    with look(browser, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        page.goto(url)
        page.wait_for_url("**/login", timeout=PATIENCE_MS)
        page.screenshot(path=tmp_path / f"login-{scheme}-{width}.png")
        inside = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert inside, "nothing is wider than the window"
        page.get_by_role("link", name="Sign in").click()
        page.wait_for_url(f"{url}/", timeout=PATIENCE_MS)
        page.get_by_label("oidc:ann").or_(page.get_by_text("oidc:ann")).first.wait_for(
            state="attached", timeout=PATIENCE_MS
        )
        cookies = {each["name"]: each for each in page.context.cookies()}
        assert "headwater_sign_in" not in cookies
        assert cookies["headwater_console"]["sameSite"] == "Strict"
        page.context.request.post(f"{url}/logout", headers={"Origin": url})
        page.goto(url)
        page.wait_for_url("**/login", timeout=PATIENCE_MS)


def test_groups_and_names_give_roles_and_others_stay_outside(url: str, idp: Issuer):
    def role(person: str, groups: list[str]) -> str | None:
        idp.person, idp.groups = person, groups
        where, cookie = begun(url)
        answer = ask(url, back(where), Cookie=cookie)
        found = session_of(answer)
        if found is None:
            assert answer.status == 403 and "no role here" in answer.text  # type: ignore[attr-defined]
            return None
        said = json.loads(base64.urlsafe_b64decode(found.partition("=")[2].partition(".")[0]))
        assert said["name"] == f"oidc:{person}" and said["until"] > 0
        return str(said["role"])

    assert role("ann", ["ops"]) == "operator"
    assert role("ann", ["ops", "admins", "x"]) == "administrator"
    assert role("bob", []) == "reader"
    assert role("eve", ["others"]) is None
    assert role("*", []) is None


def test_nobody_is_signed_in_without_the_cookie_the_state_and_the_code(url: str):
    where, cookie = begun(url)
    path = back(where)
    _, other = begun(url)
    for headers, at in (
        ({}, path),
        ({"Cookie": other}, path),
        ({"Cookie": cookie[:-1] + ("0" if cookie[-1] != "0" else "1")}, path),
        ({"Cookie": "headwater_sign_in=" + "x" * 5000}, path),
        ({"Cookie": "headwater_sign_in=e30=."}, path),
        ({"Cookie": cookie}, path.replace("state=", "state=x")),
        ({"Cookie": cookie}, "/login/callback"),
        ({"Cookie": cookie}, path.replace("code=", "code=x")),
        ({"Cookie": cookie}, f"{path}&error=access_denied"),
    ):
        answer = ask(url, at, **headers)
        assert answer.status == 403 and session_of(answer) is None, (headers, at)
    assert session_of(ask(url, path, Cookie=cookie)) is not None, "the right one still counts"
    again = ask(url, path, Cookie=cookie)
    assert again.status == 403 and session_of(again) is None, "and once"


def test_wrong_codes_shut_out_nobody_who_comes_with_a_right_one(url: str):
    for number in range(TRIES_MAX + 5):
        where, cookie = begun(url)
        wrong = ask(url, back(where).replace("code=", f"code=x{number}"), Cookie=cookie)
        assert wrong.status == 403
    where, cookie = begun(url)
    assert session_of(ask(url, back(where), Cookie=cookie)) is not None


def test_nothing_in_a_request_says_where_it_goes_afterwards(url: str):
    where, cookie = begun(url)
    assert urlsplit(where).netloc != "evil.example"
    more = "&next=https://evil.example&redirect_uri=https://evil.example&return_to=//evil.example"
    answer = ask(url, back(where) + more, Cookie=cookie, Referer="https://evil.example/")
    assert session_of(answer) is not None
    assert "evil" not in answer.text and answer.headers.get("Location") is None  # type: ignore[attr-defined]
    begins = ask(url, "/login/oidc?redirect_uri=https://evil.example&next=//evil.example")
    assert "evil" not in begins.headers["Location"]
    assert ask(url, "/login/oidc", "POST", Origin=url).status == 405


def test_an_issuer_that_lies_or_is_away_signs_nobody_in(url: str, idp: Issuer):
    for claims in ({"nonce": "x"}, {"aud": "y"}, {"exp": 1}, {"iss": "z"}):
        idp.of_id = dict(claims)
        where, cookie = begun(url)
        answer = ask(url, back(where), Cookie=cookie)
        assert answer.status == 403 and session_of(answer) is None
    idp.of_id = {}
    where, cookie = begun(url)
    path = back(where)
    idp.failing = True
    try:
        assert ask(url, path, Cookie=cookie).status == 503
    finally:
        idp.failing = False
    assert session_of(ask(url, path, Cookie=cookie)) is not None, "the code was not used up"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"${CLIENT_SECRET}"', '"written down"', "client_secret"),
        ('issuer = "ISSUER"', 'issuer = "http://login.example"', "nobody could trust"),
        ('client_id = "shop"', "", "client_id"),
        ('address = "http://ADDRESS"', 'address = "http://console.example"', "https://HOST"),
        ('address = "http://ADDRESS"', 'address = "https://x.example/path"', "https://HOST"),
        ('ops = "operator"', 'ops = "root"', "no role"),
        ('client_id = "shop"', 'client_id = "shop"\naudience = "x"', "audience"),
        ('client_id = "shop"', 'client_id = "shop"\nsecrets = "x"', "no setting 'secrets'"),
    ],
)
def test_a_section_with_a_mistake_is_told(tmp_path: Path, before: str, after: str, said: str):
    file = tmp_path / "headwater.toml"
    good = FILE.replace("ADDRESS", "127.0.0.1:8765")
    file.write_text(good.replace("ISSUER", "https://login.example"))
    load(file)
    bad = FILE.replace(before, after)
    assert bad != FILE
    bad = bad.replace("ADDRESS", "127.0.0.1:8765").replace("ISSUER", "https://login.example")
    file.write_text(bad)
    with pytest.raises(Exception, match=said):
        load(file)
