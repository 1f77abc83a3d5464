"""Administration in a browser: forms that show first what would change, and pages for those who may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.client import groups, quotas, setting_details, topics, users
from headwater.client.log import Log
from headwater.client.setting_details import Kind, Place
from headwater.project.broker_process import BrokerProcess
from tests.compat.waiting import until
from tests.console.running import console, look

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(900)
TOKENS = {"HEADWATER_CONSOLE_TOKEN": "sea", "POND": "pond"}


@pytest.fixture(scope="module")
def log(broker: BrokerProcess) -> Iterator[Log]:
    with Log(broker.bootstrap) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "headwater.toml").write_text(
        f'[log]\nbootstrap = "{broker.bootstrap}"\n[console]\n'
        '[console.tokens]\noperator = "${POND}"\n'
    )
    with console(folder=folder, environment=TOKENS) as address:
        yield address


@pytest.fixture(scope="module")
def signed_in(browser: Browser, url: str) -> Iterator[Page]:
    """An administrator; one page for all of this file."""
    with look(browser, viewport={"width": 1440, "height": 1000}) as page:
        enter(page, url, "sea")
        yield page


def enter(page: Page, url: str, token: str) -> None:
    page.goto(f"{url}/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")


def applied(page: Page, button: str) -> None:
    """Look first, then do what was shown."""
    from playwright.sync_api import expect

    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=button)).to_be_hidden()
    dialog.get_by_role("button", name="Show what would change").click()
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_be_hidden()


def test_a_topic_is_made_configured_grown_and_deleted(url: str, signed_in: Page, log: Log) -> None:
    from playwright.sync_api import expect

    page = signed_in
    page.goto(f"{url}/topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name", exact=True).fill("payments")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_label("Other settings").fill("retention.ms=soon")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Show what would change").click()
    expect(page.get_by_text(re.compile("INVALID_CONFIG"))).to_be_visible()
    expect(dialog.get_by_role("button", name="Create topic")).to_be_hidden()
    page.get_by_label("Other settings").fill("retention.ms=3600000")
    applied(page, "Create topic")
    assert log.topics()["payments"] == 2
    page.get_by_role("link", name="payments").click()
    page.get_by_role("tab", name="Settings").click()
    page.get_by_role("button", name="Change retention.ms", exact=True).click()
    expect(dialog.get_by_text("Now 3600000, given by this topic")).to_be_visible()
    page.get_by_label("Value", exact=True).fill("7200000")
    applied(page, "Apply changes")
    place = Place(Kind.TOPIC, "payments")
    now = {each.name: each.value for each in setting_details.described(log, place)}
    assert now["retention.ms"] == "7200000"
    expect(page.get_by_role("cell", name="7200000", exact=True)).to_be_visible()
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_label("Partitions in all").fill("4")
    applied(page, "Add partitions")
    assert log.topics()["payments"] == 4
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("Type the topic's name").fill("payment")
    dialog.get_by_role("button", name="Show what would change").click()
    expect(page.get_by_text("type the name as it is")).to_be_visible()
    page.get_by_label("Type the topic's name").fill("payments")
    applied(page, "Delete topic")
    page.wait_for_url(f"{url}/topics")
    assert "payments" not in log.topics()


def test_a_setting_of_the_broker_is_changed_and_given_back(
    url: str, signed_in: Page, log: Log
) -> None:
    from playwright.sync_api import expect

    page, dialog = signed_in, signed_in.get_by_role("dialog")
    page.goto(f"{url}/brokers")
    row = page.get_by_role("row", name=re.compile("^node.id"))
    expect(row).to_contain_text("at start only")
    expect(row.get_by_role("button")).to_have_count(0)
    (broker,) = setting_details.brokers(log)

    def is_own() -> bool:
        found = setting_details.described(log, Place(Kind.BROKER, broker))
        return next(each.is_own for each in found if each.name == "message.max.bytes")

    page.get_by_role("button", name="Change message.max.bytes").click()
    page.get_by_label("Value", exact=True).fill("2000000")
    applied(page, "Apply changes")
    until(is_own, "the broker's own value")
    page.get_by_role("button", name="Change message.max.bytes").click()
    dialog.get_by_text("Without a value of its own").click()
    applied(page, "Apply changes")
    assert not is_own()


def test_users_and_quotas_are_set_and_a_group_is_deleted(
    url: str, signed_in: Page, log: Log
) -> None:
    from playwright.sync_api import expect

    page = signed_in
    page.goto(f"{url}/access")
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name", exact=True).fill("carol")
    page.get_by_label("Password", exact=True).fill("wonderland")
    applied(page, "Set")
    assert users.listed(log.admin) == {"carol": ["SCRAM-SHA-512"]}
    page.get_by_role("button", name="Remove carol").click()
    page.get_by_label("Type the user's name").fill("carol")
    applied(page, "Remove user")
    assert not users.listed(log.admin)
    page.get_by_role("tab", name="Permissions").click()
    page.get_by_role("button", name="New permission").click()
    page.get_by_label("Principal", exact=True).fill("User:carol")
    page.get_by_label("Its name").fill("orders")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Show what would change").click()
    dialog.get_by_role("button", name="Add permission").click()
    # This broker has no authorizer, and says so.
    expect(page.get_by_text(re.compile("SECURITY_DISABLED"))).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("tab", name="Quotas").click()
    page.get_by_role("button", name="New quota").click()
    page.get_by_label("user", exact=True).fill("carol")
    page.get_by_label("producer_byte_rate").fill("1000")
    applied(page, "Set quota")
    assert quotas.listed(log) == [quotas.Quota({"user": "carol"}, {"producer_byte_rate": 1000.0})]
    topics.create(log.admin, "read", 1)
    groups.commit(log, "readers", {("read", 0): 0})
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{url}/groups")
    lag = page.get_by_role("columnheader", name="Lag").bounding_box()
    assert lag is not None and lag["x"] + lag["width"] <= 390
    page.goto(f"{url}/topics")
    count = page.get_by_role("columnheader", name="Records", exact=True).bounding_box()
    assert count is not None and count["x"] + count["width"] <= 390
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto(f"{url}/groups")
    state = page.get_by_role("cell", name="nobody reads").locator(".hw-state").bounding_box()
    assert state is not None and state["height"] < 32, "it stands on one line"
    page.goto(f"{url}/groups?id=readers")
    page.get_by_role("button", name="Delete group").click()
    page.get_by_label("Type the group's name").fill("readers")
    applied(page, "Delete group")
    page.wait_for_url(f"{url}/groups")
    assert groups.consumer_names(log) == []


def test_an_operator_sees_settings_and_none_of_the_buttons(
    url: str, browser: Browser, log: Log
) -> None:
    from playwright.sync_api import expect

    topics.create(log.admin, "orders", 1)
    with look(browser, viewport={"width": 1440, "height": 1000}) as page:
        enter(page, url, "pond")
        page.goto(f"{url}/topics/orders?tab=settings")
        expect(page.get_by_text("retention.ms", exact=True)).to_be_visible()
        for name in ("Add partitions", "Delete", "Change retention.ms"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        # Whoever presses it all the same, with the tools of his browser, meets the server.
        hidden = page.locator(".hw-never button", has_text="Add partitions").first
        hidden.dispatch_event("click")
        expect(page.get_by_text("takes the role of administrator")).to_be_visible()
        page.goto(f"{url}/topics")
        expect(page.get_by_role("link", name="orders")).to_be_visible()
        expect(page.get_by_role("button", name="New topic")).to_have_count(0)
        page.goto(f"{url}/access")
        expect(page.get_by_text("The console has no page at /access.")).to_be_visible()
