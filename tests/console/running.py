"""A console in a process of its own, and a browser that looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.project.hello import page_answers
from headwater.project.ports import free_port
from tests.compat.missing import CANNOT, skip_or_fail
from tests.compat.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 100_000
"""For whatever a page is to show; usually it takes moments."""
START_S = 240.0
"""For its process: many imports, on a machine with much else to do."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def console(
    *words: str, folder: Path, environment: dict[str, str] | None = None, listen: str | None = None
) -> Iterator[str]:
    """`headwater console WORDS` on a free port; the address of its page."""
    address = listen or f"127.0.0.1:{free_port()}"
    output = (folder / "console.txt").open("wb")
    with output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "console", "--listen", address, *words],
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
        try:
            until(
                lambda: process.poll() is not None or page_answers(address, 5.0),
                "the console's page",
                START_S,
            )
            assert process.poll() is None, (folder / "console.txt").read_text()
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's browser, without a window. One at a time, and not beside a running event loop."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        skip_or_fail(
            f"the console's pages {CANNOT}: install Chromium (Debian: apt install chromium)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def look(browser: Browser, **options: object) -> Iterator[Page]:
    """A page of a visitor of its own; an error in its scripts fails the test."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page
        assert not errors, errors
    finally:
        context.close()
