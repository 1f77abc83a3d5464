"""The console as an ASGI application: NiceGUI's page for every address, behind the guard.

Made once in a process by `server`: NiceGUI keeps its application in the module.

Also here: the frame around every page: skip link, bar, navigation, light and dark; and the pages inside it.

One NiceGUI page for all addresses. Going from page to page replaces the middle over the open websocket: no
reload, and the address, the back button and bookmarks work as with separate pages.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fastapi import FastAPI
from nicegui import PageArguments, ui
from nicegui import app as nicegui_app
from nicegui.page_arguments import RouteMatch
from starlette.requests import Request
from starlette.types import ASGIApp

from headwater import __version__
from headwater.console import elements, events
from headwater.console.context import Context, Visit
from headwater.console.guard import STANDS, VISITOR, Guard
from headwater.console.login import Login
from headwater.console.pages import Page, all_pages
from headwater.console.sessions import Visitor

STATIC = Path(__file__).parent / "static"
# A browser that was cut off for less gets its page back as it was.
RECONNECT_S = 10.0
ADDRESS_MAX, SLASHES_MAX = 16 * 1024, 64
"""Characters with what is asked for, and steps of the path."""


def make_app(
    context: Context,
    login: Login | None,
    *,
    loopback_only: bool,
) -> ASGIApp:
    """The application, with everything in front of it."""
    pages = [page for page in all_pages() if page.is_there(context)]
    events.guard()
    nicegui_app.add_static_files("/static", STATIC)
    nicegui_app.add_static_file(local_file=STATIC / "favicon.svg", url_path="/favicon.ico")
    ui.add_head_html(_head(), shared=True)

    def every_address(request: Request) -> None:
        events.bound_pages(request.scope)
        theme = request.cookies.get(THEME_COOKIE, "auto")
        visitor = request.scope[VISITOR]
        known = [page for page in pages if visitor.role >= page.role]
        frame = Frame(context, known, visitor, request.scope[STANDS], can_leave=login is not None)
        build(frame, theme if theme in ("light", "dark") else "auto")

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
    return Guard(outer, login=login, loopback_only=loopback_only, on_end=events.forget_pages)


def _head() -> str:
    sheets = [STATIC / "console.css", STATIC / "data.css"]
    links = [
        f'<link rel="stylesheet" href="/static/{each.name}?{int(each.stat().st_mtime)}">'
        for each in sheets
    ]
    return '<link rel="icon" type="image/svg+xml" href="/static/favicon.svg">' + "".join(links)


THEME_COOKIE = "headwater_theme"
_NEXT = {"auto": "light", "light": "dark", "dark": "auto"}
_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
_VALUES = {"auto": None, "light": False, "dark": True}


@dataclass(frozen=True)
class Frame:
    """What is around the pages of one visitor."""

    context: Context
    pages: list[Page]
    visitor: Visitor
    stands: Callable[[], bool]
    can_leave: bool


def build(frame: Frame, theme: str) -> None:
    """The whole of one browser's page."""
    menu = [page for page in frame.pages if page.order is not None]
    bar = ui.header().classes("hw-bar")  # the first in the page, and in it the skip link
    drawer = ui.left_drawer(value=False, bordered=True)
    drawer.props("width=216 breakpoint=900 show-if-above")
    with drawer.classes("hw-drawer"):
        links = _navigation(menu)
    with bar:
        ui.html('<a class="hw-skip" href="#main">Skip to the content</a>', sanitize=False)
        _bar(frame, drawer, theme)
    with ui.element("main").classes("hw-main").props('id="main" tabindex="-1"'):
        _Pages({page.path: _builder(frame, page) for page in frame.pages})
    router = ui.context.client.sub_pages_router
    _mark(links, router.current_path)
    router.on_path_changed(lambda path: _mark(links, path))


def _bar(frame: Frame, drawer: ui.left_drawer, theme: str) -> None:
    context = frame.context
    menu = ui.button(icon="menu", on_click=drawer.toggle).props("flat round dense")
    menu.props["aria-label"] = "Navigation"
    with ui.link(target="/").classes("hw-brand").props('aria-label="headwater: to the flow"'):
        ui.html(_MARK, sanitize=False)
        ui.label("headwater")
    if context.project is not None:
        ui.label(context.project.folder.absolute().name).classes("hw-project")
    ui.space()
    if context.read_only:
        ui.label("read-only").classes("hw-badge")
    with ui.element("span").classes("hw-address"):
        ui.icon("dns").props('aria-hidden="true"')
        ui.label(context.bootstrap)
    _theme_button(theme)
    if frame.can_leave:
        _who(frame.visitor)


def _who(visitor: Visitor) -> None:
    """Who looks, as what, and the way out."""
    name = visitor.name.removeprefix("User:")
    with ui.button(icon="account_circle").props("flat round dense") as button:
        button.props["aria-label"] = f"{name}, {visitor.role.word}"
        with ui.menu().classes("hw-who"):
            ui.label(name).classes("hw-title")
            ui.label(visitor.role.word).classes("hw-soft hw-small")
            ui.html(_LOGOUT, sanitize=False)


_LOGOUT = '<form method="post" action="/logout"><button type="submit">Log out</button></form>'


def _navigation(menu: list[Page]) -> dict[str, ui.link]:
    links = {}
    with ui.element("nav").props('aria-label="Pages"').classes("hw-nav"):
        for page in menu:
            with ui.link(target=page.path).classes("hw-nav-link") as link:
                ui.icon(page.icon).props('aria-hidden="true"')
                ui.label(page.title)
            links[page.path] = link
    ui.label(f"headwater {__version__}").classes("hw-soft hw-small hw-version")
    return links


def _mark(links: dict[str, ui.link], path: str) -> None:
    """Say which entry of the navigation is here: to the eye and to a screen reader."""
    here = urlsplit(path).path
    for target, link in links.items():
        is_here = here == target or (target != "/" and here.startswith(f"{target}/"))
        if is_here:
            link.props('aria-current="page"')
        else:
            link.props(remove="aria-current")


def _theme_button(theme: str) -> None:
    dark = ui.dark_mode(_VALUES[theme])
    chosen = [theme]

    def turn() -> None:
        chosen[0] = _NEXT[chosen[0]]
        dark.value = _VALUES[chosen[0]]
        show()
        # One year; the server reads it when it builds the page, so that nothing flashes.
        ui.run_javascript(
            f'document.cookie = "{THEME_COOKIE}={chosen[0]};path=/;max-age=31536000;samesite=strict"'
        )

    def show() -> None:
        button.set_icon(_ICONS[chosen[0]])
        button.props["aria-label"] = f"Colours: {chosen[0]}"
        tip.set_text(f"Colours: {chosen[0]}")

    button = ui.button(icon=_ICONS[theme], on_click=turn).props("flat round dense")
    with button:
        tip = ui.tooltip("")
    show()


class _Pages(ui.sub_pages):
    """Addresses to pages; what is not there is said in plain words."""

    def _find_matching_path(self) -> RouteMatch | None:
        # Each beginning of it is tried as each page's: browsers send what they like, also later.
        path = self._router.current_path
        is_one = isinstance(path, str) and len(path) <= ADDRESS_MAX
        return super()._find_matching_path() if is_one and path.count("/") <= SLASHES_MAX else None

    def _render_404(self) -> None:
        elements.heading("Not here")
        elements.absent(
            f"The console has no page at {urlsplit(str(self._router.current_path)[:200]).path}.",
            "The navigation shows what there is.",
            icon="travel_explore",
        )


def _builder(frame: Frame, page: Page) -> Callable[[PageArguments], Any]:
    # NiceGUI looks at the annotation itself: so this file has no `from __future__ import annotations`.
    def build_page(arguments: PageArguments) -> Any:
        params = {name: unquote(value) for name, value in arguments.path_parameters.items()}
        query = dict(arguments.query_parameters)
        visit = Visit(frame.context, params, query, frame.visitor, frame.stands)
        ui.page_title(f"{page.title} · headwater")
        try:
            visit.must_stand()
            outcome = page.show(visit)
        except Exception as error:
            elements.trouble(error)
            return None
        return _told(outcome) if inspect.isawaitable(outcome) else None

    return build_page


async def _told(outcome: Awaitable[None]) -> None:
    try:
        await outcome
    except Exception as error:
        elements.trouble(error)


_MARK = (
    '<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" fill="none" stroke="currentColor" '
    'stroke-width="2" stroke-linecap="round"><path d="M12 2.5c3.6 4.4 5.6 7.4 5.6 10.4a5.6 5.6 0 0 1-11.2 0'
    'c0-3 2-6 5.6-10.4Z"/><path d="M3 21c2 0 2-1.2 4.5-1.2S10 21 12 21s2-1.2 4.5-1.2S19 21 21 21"/></svg>'
)
