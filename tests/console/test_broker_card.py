"""What troubles the broker, in a real browser: on its card among the parts, and on the front page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from headwater.project.broker_process import BrokerProcess
from tests.console.running import console

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    found = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in found.create_topics([NewTopic("orders", 1)]).values():
        made.result()
    return found


@pytest.fixture(scope="module")
def site(
    broker: BrokerProcess, admin: AdminClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("console")
    with console("--bootstrap", broker.bootstrap, folder=folder) as address:
        yield address


def keep_free(admin: AdminClient, count: int) -> None:
    change = ConfigEntry(
        "log.min.free.bytes", str(count), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def test_a_broker_that_refuses_records_is_shown_until_it_takes_them_again(
    site: str, admin: AdminClient, page: Page
) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/parts")
    card = page.get_by_role("region", name="The broker")
    expect(card).to_contain_text("well")
    expect(card.get_by_text("The broker", exact=True)).to_have_count(1)
    keep_free(admin, 2**62)
    expect(card).to_contain_text("in trouble")
    expect(card).to_contain_text("new records are refused until there is room")
    page.goto(site)
    expect(page.get_by_text("1 thing needs attention")).to_be_visible()
    expect(page.get_by_text("new records are refused until there is room")).to_be_visible()
    keep_free(admin, 1)
    expect(page.get_by_text("All is well")).to_be_visible()
