"""Pictures of a running console for docs/images/console: `python docs/screenshots.py http://127.0.0.1:8765`.

Made by hand when a page has changed, from a project with something in it; not by tests.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "images" / "console"
SETTLE_MS = 6000


class Shot(NamedTuple):
    name: str
    path: str
    colours: str = "light"
    height: int = 860


SHOTS = (
    Shot("flow", "/"),
    Shot("flow-dark", "/", "dark"),
    Shot("topic-settings", "/topics/orders?tab=settings"),
    Shot("access", "/access?tab=permissions", height=480),
    Shot("captures", "/captures", height=480),
    Shot("queries", "/queries", height=900),
    Shot("views", "/views", height=760),
    Shot("view", "/views/order_list", height=1000),
    Shot("parts", "/parts?name=pipelines", height=760),
)


def main(url: str, names: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for shot in SHOTS:
            if names and shot.name not in names:
                continue
            context = browser.new_context(
                viewport={"width": 1440, "height": shot.height},
                color_scheme="dark" if shot.colours == "dark" else "light",
            )
            page = context.new_page()
            page.goto(url.rstrip("/") + shot.path)
            page.wait_for_timeout(SETTLE_MS)  # figures and charts come in by themselves
            page.screenshot(path=FOLDER / f"{shot.name}.png")
            context.close()
            print(f"docs/images/console/{shot.name}.png")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python docs/screenshots.py URL [NAME]...")
    main(sys.argv[1], sys.argv[2:])
