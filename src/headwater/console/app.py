"""The console as an ASGI application: NiceGUI's page for every address, behind the guard.

Made once in a process by `serving`: NiceGUI keeps its application in the module.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.requests import Request
from starlette.types import ASGIApp

from headwater.console import frame
from headwater.console.context import Context
from headwater.console.guard import Guard
from headwater.console.pages import all_pages
from headwater.console.sessions import Sessions

STATIC = Path(__file__).parent / "static"
# A browser that was cut off for less gets its page back as it was.
RECONNECT_S = 10.0


def make_app(context: Context, sessions: Sessions | None, *, loopback_only: bool) -> ASGIApp:
    """The application, with everything in front of it."""
    pages = all_pages()
    nicegui_app.add_static_files("/static", STATIC)
    nicegui_app.add_static_file(local_file=STATIC / "favicon.svg", url_path="/favicon.ico")
    ui.add_head_html(_head(), shared=True)

    def every_address(request: Request) -> None:
        theme = request.cookies.get(frame.THEME_COOKIE, "auto")
        frame.build(context, pages, theme if theme in ("light", "dark") else "auto")

    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    nicegui_app.on_startup(context.start)
    nicegui_app.on_shutdown(context.stop)
    ui.page("/{_path:path}")(every_address)
    ui.run_with(
        outer,
        title="headwater",
        dark=None,
        tailwind=False,  # it would compile style sheets in the browser at every change
        reconnect_timeout=RECONNECT_S,
        show_welcome_message=False,
    )
    return Guard(outer, sessions=sessions, loopback_only=loopback_only)


def _head() -> str:
    sheets = [STATIC / "console.css", STATIC / "data.css"]
    links = [
        f'<link rel="stylesheet" href="/static/{each.name}?{int(each.stat().st_mtime)}">'
        for each in sheets
    ]
    return '<link rel="icon" type="image/svg+xml" href="/static/favicon.svg">' + "".join(links)
