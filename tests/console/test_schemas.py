"""The page of schemas in a real browser: subjects, versions side by side; a record shown by its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.project.broker_process import BrokerProcess
from headwater.schemas.client import RegistryClient
from headwater.schemas.lookup import RegistryLookup
from headwater.schemas.model import JSON, PROTOBUF, Schema
from headwater.schemas.values.codecs import Codecs
from tests.console.running import console, look
from tests.schemas.conftest import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ONE = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "total", "type": "float"}]}"""
TWO = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "total", "type": "double"},
    {"name": "note", "type": ["null", "string"], "default": null}]}"""
PARCEL = 'syntax = "proto3"; message Parcel { int64 id = 1; }'


@pytest.fixture(scope="module")
def site(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console for a log with two subjects and a record of one; the registry has stopped."""
    log = Log(broker.bootstrap)
    log.ensure_topic("orders", {}, partitions=1)
    with serving(broker.bootstrap) as url, RegistryClient(url) as client:
        for text in (ONE, TWO):
            client.register("orders-value", Schema(text))
        client.register("parcels-value", Schema(PARCEL, PROTOBUF))
        client.set_level("FULL", "parcels-value")
        codecs = Codecs(RegistryLookup(client))
        publish(log, "orders", Draft(b"7", codecs.encode("orders-value", {"id": 7, "total": 1.5})))
    log.close()
    folder = tmp_path_factory.mktemp("console")
    with console("--bootstrap", broker.bootstrap, folder=folder) as address:
        yield address


def test_subjects_are_listed_and_versions_compared(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/schemas")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="parcels-value"))
    expect(row).to_contain_text("PROTOBUF")
    expect(row).to_contain_text("FULL")
    page.get_by_role("link", name="orders-value").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders-value")
    sides = page.locator("table.hw-sides")
    expect(sides.locator("thead")).to_contain_text("version 1")
    changed = sides.locator("tr.hw-line-changed")
    expect(changed.first).to_contain_text('"type": "float"')
    expect(changed.first).to_contain_text('"type": "double"')
    expect(sides.locator("tr.hw-line-added").first).to_be_visible()
    expect(page.get_by_text("Topic orders")).to_be_visible()
    page.goto(f"{site}/schemas?subject=orders-value&old=2&new=2")
    expect(page.get_by_text("no difference")).to_be_visible()
    page.goto(f"{site}/schemas?subject=nobody")
    expect(page.get_by_text("There is no subject nobody.")).to_be_visible()


def test_a_record_is_shown_and_found_by_its_schema(site: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/topics/orders")
    page.get_by_role("button", name="Open record 0:0").click()
    panel = page.get_by_role("complementary", name="The chosen record")
    expect(panel).to_contain_text('"total": 1.5')
    expect(panel).to_contain_text("Avro")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_has_no_scrolling_sideways(
    site: str, browser: Browser, width: int, colours: str
) -> None:
    from playwright.sync_api import expect

    with look(browser, viewport={"width": width, "height": 900}, color_scheme=colours) as page:
        page.goto(f"{site}/schemas?subject=orders-value")
        expect(page.locator("table.hw-sides")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_versions_of_very_many_lines_are_compared_and_the_first_are_shown(
    site: str, broker: BrokerProcess, page: Page
) -> None:
    """Whoever may register a schema must not stop the console."""
    from playwright.sync_api import expect

    with serving(broker.bootstrap) as url, RegistryClient(url) as client:
        client.set_level("NONE", "wide-value")
        for kind in ("integer", "number"):
            text = f'{{"type": "{kind}", "examples": [{"0," * 200_000}0], "title": "{kind}"}}'
            client.register("wide-value", Schema(text, JSON))
    page.goto(f"{site}/schemas?subject=wide-value")
    expect(page.get_by_text("2 changed")).to_be_visible()
    expect(page.locator("tr.hw-line-changed").first).to_contain_text('"type": "integer"')
    expect(page.get_by_text("lines more: headwater schemas diff SUBJECT 1 2")).to_be_visible()
