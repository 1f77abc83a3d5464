"""The page of a capture of PostgreSQL, of a real server, in a browser: its slot, its lag and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.project.broker_process import BrokerProcess
from tests.capture.postgres.running import Setting
from tests.capture.postgres.server import postgres
from tests.console.running import console

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def setting(broker: BrokerProcess) -> Iterator[Setting]:
    with postgres() as server:
        server.execute("CREATE DATABASE shop")
        made = Setting(server, broker.bootstrap, "shop")
        made.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, total int)",
            "INSERT INTO orders SELECT n, n FROM generate_series(1, 100) n",
        )
        yield made
        made.remove()


def test_a_postgresql_captures_page_shows_its_slot_its_lag_and_its_tables(
    setting: Setting, page: Page, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    config = setting.config("orders")
    (tmp_path / "headwater.toml").write_text(
        f'[log]\nbootstrap = "{setting.bootstrap}"\n'
        f'[capture.{config.name}]\nfrom = "{config.url}"\ntables = ["orders"]\n'
    )
    with setting.running(config) as runner:
        setting.caught_up(runner)
        with console(folder=tmp_path) as url:
            page.goto(f"{url}/captures/{config.name}")
            card = page.get_by_role("region", name="In the database")
            for words in (
                "headwater_shop, in use",
                "reserved",
                "WAL kept for it",
                "Not acknowledged",
            ):
                expect(card).to_contain_text(words)
            expect(page.get_by_role("region", name="Behind the database")).to_be_visible()
            expect(page.get_by_role("region", name="Tables")).to_contain_text("orders")
            shown = page.get_by_text("postgresql://").first.inner_text()
            assert "@" not in shown
