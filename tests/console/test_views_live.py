"""A whole project with Spark, in a browser: the view follows, is verified, built anew, and taken back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.project.hello import page_answers
from headwater.project.new_project import start_project
from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.spark.quick import QUICK_ENVIRONMENT

if TYPE_CHECKING:
    from playwright.sync_api import Page

SPARK_MS = 300_000
pytestmark = [
    pytest.mark.timeout(1500),
    pytest.mark.soak,
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    parent = tmp_path_factory.mktemp("projects")
    start_project(parent, "shop")
    folder = parent / "shop"
    page_at = f"127.0.0.1:{free_port()}"
    file = folder / "headwater.toml"
    text = file.read_text().replace("127.0.0.1:8765", page_at)
    file.write_text(text.replace("127.0.0.1:9092", f"127.0.0.1:{free_port()}"))
    for words in (["--make"], ["--orders", "50"]):
        subprocess.run([sys.executable, "shop.py", *words], cwd=folder, check=True)
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "up"],
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, **QUICK_ENVIRONMENT},
        )
        try:
            until(lambda: page_answers(page_at, 5.0), "the console under headwater up")
            yield f"http://{page_at}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def test_a_view_is_verified_built_anew_and_taken_back(url: str, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto(url)
    expect(page.locator('[data-node="view:order_list"]')).to_contain_text(
        "up to date", timeout=SPARK_MS
    )
    expect(page.locator('[data-node="query:order_list"]')).to_contain_text("rows/s")
    page.locator('[data-node="view:order_list"]').click()
    card = page.get_by_role("region", name="View order_list")
    job = card.locator(".hw-job")
    card.get_by_role("button", name="Verify", exact=True).click()
    expect(job).to_contain_text("under way")
    expect(job).to_contain_text("Right: no row differs", timeout=SPARK_MS)
    expect(card).to_contain_text(re.compile(r"Verified.* ago", re.DOTALL))
    card.get_by_role("button", name="Rebuild").click()
    expect(job).to_contain_text("readers see version 2 now", timeout=SPARK_MS)
    expect(card).to_contain_text("2 (also 1)")
    card.get_by_role("button", name="Back to the version before").click()
    expect(job).to_contain_text("Readers see version 1", timeout=SPARK_MS)
    page.get_by_role("navigation").get_by_role("link", name="Queries").click()
    expect(page.get_by_role("region", name="Query order_list")).to_contain_text("running")
