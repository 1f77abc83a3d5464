"""The console's pages on topics, groups, dead letters and time travel, in a real browser on a live log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from headwater.project.broker_process import BrokerProcess
from tests.compat.waiting import until
from tests.console.running import console
from tests.console.seeding import ORDERS, commit, committed, seed, values_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@pytest.fixture(scope="module")
def site(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console for a log with something of everything."""
    seed(broker.bootstrap)
    folder = tmp_path_factory.mktemp("console")
    with console("--bootstrap", broker.bootstrap, folder=folder) as address:
        yield address


def first_place(page: Page) -> Locator:
    return page.locator(".hw-records .hw-open").first


def said(page: Page) -> Locator:
    """What the page says about what it shows."""
    return page.locator(".hw-said")


def test_a_topic_is_found_and_a_record_read_in_full(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders", exact=True))
    expect(row).to_contain_text(f"{2 * ORDERS}")
    expect(row).to_contain_text("7 days")
    compacted = page.get_by_role("row").filter(has=page.get_by_role("link", name="inbox"))
    expect(compacted).to_contain_text("latest of each key")
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    expect(said(page)).to_contain_text(f"50 of {2 * ORDERS} records")
    page.get_by_role("button", name=f"Open record 1:{ORDERS - 1}").click()
    panel = page.get_by_role("complementary", name="The chosen record")
    expect(panel).to_contain_text(f'"name": "name 1-{ORDERS - 1}"')
    expect(panel).to_contain_text(f"t{ORDERS - 1}")
    panel.get_by_role("button", name="hex").click()
    expect(panel).to_contain_text("7b 22 6f 72 64 65 72")
    panel.get_by_role("button", name="The record below").click()
    expect(panel).to_contain_text(f"Record 0:{ORDERS - 1}")
    panel.get_by_role("button", name="Close the record").click()
    expect(panel).to_be_hidden()
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_text("retention.ms", exact=True)).to_be_visible()


def test_pages_go_back_and_forth_and_to_any_place(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/orders")
    expect(first_place(page)).to_have_text(f"1:{ORDERS - 1}")
    page.get_by_role("button", name="Older").click()
    expect(first_place(page)).to_have_text(f"1:{ORDERS - 26}")
    page.get_by_role("button", name="Newer").click()
    expect(first_place(page)).to_have_text(f"1:{ORDERS - 1}")
    page.get_by_role("button", name="Newer").click()
    expect(said(page)).to_have_text("Nothing newer has come yet.")
    page.get_by_role("button", name="Oldest", exact=True).click()
    expect(first_place(page)).to_have_text("0:0")
    expect(page.get_by_role("button", name="Older")).to_be_disabled()
    place = page.get_by_label("Go to")
    place.fill("1:17")
    place.press("Enter")
    expect(first_place(page)).to_have_text("1:17")
    expect(page).to_have_url(f"{site}/topics/orders?at=1%3A17")
    page.get_by_role("button", name="Newest", exact=True).click()
    expect(first_place(page)).to_have_text(f"1:{ORDERS - 1}")
    place.fill("2023-11-14T22:13:25")  # five seconds after the first: record 5 of this partition
    place.press("Enter")
    expect(first_place(page)).to_have_text("1:5")
    place.fill("somewhere")
    place.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("neither an offset nor a time")


def test_a_search_says_what_it_found_and_where_it_looked(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/orders")
    expect(first_place(page)).to_be_visible()
    words = page.get_by_label("Find", exact=True)
    words.fill("NEEDLE")
    words.press("Enter")
    expect(page.get_by_text(f"1 found in all of it ({2 * ORDERS} of {2 * ORDERS}")).to_be_visible()
    expect(page.locator(".hw-records .hw-open")).to_have_text(["1:7"])
    page.get_by_label("Where to look").click()
    page.get_by_role("option", name="the key is").click()
    words.fill("k9")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".hw-records .hw-open")).to_have_text(["1:9", "0:9"])


def test_a_live_tail_shows_a_record_that_is_published_here(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/fresh")
    expect(said(page)).to_contain_text("The topic is empty")
    page.get_by_role("button", name="Follow", exact=True).click()
    expect(said(page)).to_contain_text("Following")
    page.get_by_role("button", name="Publish", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key (none if empty)").fill("new")
    dialog.get_by_label("Value", exact=True).fill('{"total": 12}')
    dialog.get_by_label("Headers").fill("trace=9")
    dialog.get_by_label("Partition (by the key if empty)").fill("1")
    dialog.get_by_role("button", name="Publish record").click()
    expect(page.get_by_text("Published: record 1:0")).to_be_visible()
    expect(first_place(page)).to_have_text("1:0")
    page.get_by_role("button", name="Stop following").click()
    expect(said(page)).to_contain_text("Stopped: 1 record came")
    assert values_of(broker.bootstrap, "fresh", 1) == [b'{"total": 12}']


def test_a_range_is_replayed_into_another_topic(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/orders")
    page.get_by_role("button", name="Replay", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Into topic").fill("copies")
    dialog.get_by_label("From").fill("0:10")
    dialog.get_by_label("Up to").fill("0:15")
    dialog.get_by_role("button", name="Check").click()
    expect(dialog).to_contain_text("5 offsets of 1 partition would go into copies.")
    dialog.get_by_role("button", name="Replay records").click()
    expect(dialog).to_contain_text("Replayed 5 records into copies.")
    copied = values_of(broker.bootstrap, "copies", 0)
    assert copied == values_of(broker.bootstrap, "orders", 0)[10:15]


def test_a_group_is_reset_after_a_look_at_what_would_change(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/groups")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing", exact=True))
    expect(row).to_contain_text("nobody reads")
    expect(row).to_contain_text("40")  # 30 and 10 records behind
    page.get_by_role("link", name="billing", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("billing")
    expect(said(page)).to_contain_text("lag 40")
    expect(page.get_by_role("img").locator("canvas")).to_be_visible()
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To", exact=True).fill("+5")
    dialog.get_by_role("button", name="Show what would change").click()
    expect(dialog.get_by_role("row").filter(has_text="orders-0")).to_contain_text("5 skipped")
    assert committed(broker.bootstrap, "billing", "orders", 2) == [100, 120]
    dialog.get_by_role("button", name="Reset 2 partitions").click()
    expect(page.get_by_text("billing was reset: 2 partitions moved")).to_be_visible()
    assert committed(broker.bootstrap, "billing", "orders", 2) == [105, 125]


def test_a_group_that_is_reading_is_not_reset(site: str, page: Page, broker: BrokerProcess) -> None:
    from playwright.sync_api import expect

    commit(broker.bootstrap, "a busy group/?&", {("orders", 0): 1})
    own = {"group.id": "a busy group/?&", "client.id": "worker", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **own})
    consumer.subscribe(["orders"])
    until(lambda: consumer.poll(0.1) is not None and consumer.assignment(), "an assignment")
    page.goto(f"{site}/groups")
    page.get_by_role("link", name="a busy group/?&").click()
    expect(page.get_by_role("cell", name="worker").first).to_be_visible()
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("button", name="Show what would change").click()
    expect(page.get_by_text("has 1 member and cannot be reset")).to_be_visible()
    consumer.close()


def test_a_dead_letter_is_corrected_and_sent_back_and_then_the_others(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/dead-letters")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="dlq.billing"))
    expect(row).to_contain_text("the total is no number (3), no such customer (1)")
    page.get_by_role("link", name="dlq.billing").click()
    expect(said(page)).to_have_text("4 wait.")
    page.get_by_role("button", name="no such customer: 1").click()
    expect(page.locator(".hw-records .hw-open")).to_have_text(["0:3"])
    page.get_by_role("button", name="All: 4").click()
    page.get_by_role("button", name="Open letter 0:1").click()
    panel = page.get_by_role("complementary", name="The chosen letter")
    expect(panel).to_contain_text("the total is no number")
    expect(panel.get_by_role("link", name="inbox 0:1")).to_be_visible()
    panel.get_by_label("Value of the letter").fill('{"order": 1, "total": 12}')
    panel.get_by_role("button", name="Send back").click()
    expect(page.get_by_text("Sent corrected to inbox")).to_be_visible()
    expect(said(page)).to_have_text("3 wait.")
    page.get_by_role("button", name="Open letter 0:3").click()
    panel.get_by_role("button", name="Dismiss", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Dismiss").click()
    expect(said(page)).to_have_text("2 wait.")
    page.get_by_role("button", name="Send all back").click()
    page.get_by_role("button", name="Send all", exact=True).click()
    expect(said(page)).to_contain_text("Nothing waits")
    sent = [json.loads(value or b"") for value in values_of(broker.bootstrap, "inbox")]
    assert sent == [
        {"order": 1, "total": 12},
        {"order": 0, "total": "twelve"},
        {"order": 2, "total": "twelve"},
    ]


def test_a_slider_goes_through_the_history_of_a_key(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/time-travel")
    page.get_by_label("Topic").fill("shop.cust")
    page.get_by_role("option", name="shop.customers").click()
    expect(page.get_by_role("link", name='{"id":7}')).to_be_visible()
    page.get_by_label("Key", exact=True).fill("7")
    page.get_by_role("button", name="Travel").click()
    expect(page.get_by_text("No row: deleted.")).to_be_visible()
    slider = page.get_by_role("slider").locator("[tabindex]")  # what Tab reaches
    slider.press("ArrowLeft")
    changed = page.locator(".hw-changed")
    expect(changed).to_contain_text(["Ada Lovelace"])
    expect(changed.locator("del")).to_have_text(["Ada"])
    slider.press("ArrowLeft")
    expect(changed).to_contain_text(["Turin"])
    page.get_by_role("button", name="Go to change 1,").click()
    expect(changed).to_contain_text(["id", "name", "city"])
    expect(page.get_by_role("button", name="The change before")).to_be_disabled()
    page.get_by_role("button", name="by time").click()
    page.get_by_role("button", name="The change after").click()
    expect(said(page)).to_contain_text("22:14:20.000 UTC: updated")
    page.get_by_role("link", name="0:1", exact=True).click()
    expect(page.get_by_role("complementary", name="The chosen record")).to_contain_text(
        "Record 0:1"
    )


def test_nothing_can_be_changed_in_a_read_only_console(
    site: str, page: Page, broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from playwright.sync_api import expect

    folder = tmp_path_factory.mktemp("read-only")
    with console("--bootstrap", broker.bootstrap, "--read-only", folder=folder) as address:
        page.goto(f"{address}/topics/orders")
        expect(first_place(page)).to_be_visible()
        for name in ("Publish", "Replay"):
            expect(page.get_by_role("button", name=name)).to_be_hidden()
        page.goto(f"{address}/groups?id=billing")
        expect(page.get_by_role("heading", name="billing")).to_be_visible()
        expect(page.get_by_role("button", name="Reset offsets")).to_be_hidden()
        page.goto(f"{address}/dead-letters?topic=dlq.billing")
        expect(page.get_by_role("button", name="Reload")).to_be_visible()
        expect(page.get_by_role("button", name="Send all back")).to_be_hidden()
        page.goto(f"{address}/topics/nothing")
        expect(page.get_by_role("alert").first).to_contain_text("There is no topic 'nothing'")


def test_a_record_that_comes_while_somebody_pages_is_newer(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/bytes")
    expect(first_place(page)).to_have_text("0:0")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce("bytes", b"\x00\xff", "bytes")
    assert producer.flush(60) == 0
    page.get_by_role("button", name="Newer").click()
    expect(first_place(page)).to_have_text("0:1")
    first_place(page).click()
    panel = page.get_by_role("complementary", name="The chosen record")
    expect(panel).to_contain_text("00000000  00 ff")


def test_a_broker_that_is_away_is_said_until_it_is_back(
    site: str, page: Page, broker: BrokerProcess
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/groups")
    expect(page.get_by_role("link", name="billing", exact=True)).to_be_visible()
    broker.kill()
    try:
        expect(page.get_by_role("alert")).to_contain_text("No broker answers at")
    finally:
        broker.start()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("link", name="billing", exact=True)).to_be_visible()
