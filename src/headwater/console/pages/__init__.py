"""The pages of the console: one module each, found by themselves.

A module `pages/NAME.py` or a folder `pages/NAME/` that has a list `PAGES` adds pages; a module without one is
a helper of another.
There is nothing else to register.

    PAGES = [
        Page("/topics", "Topics", show, icon="view_list", order=20),
        Page("/topics/{topic}", "Topic", show_one),         # no order: not in the navigation
    ]

    def show(visit: Visit) -> None: ...                      # or: async def

`show` builds NiceGUI elements; it is called in the event loop, within the frame, at each visit, also when
only the query in the address changes. The contract:

- It must not block the loop: whatever asks a broker, a store or a disk for more than a millisecond runs in a
  thread. `live.keep(load, draw, every_s)` does that: `load` in a thread, at once and again every so many
  seconds while the page is looked at; `draw` with its result in the loop; an error becomes a sentence in
  the page, and the next load tries again. `await live.loaded(load)` does it once.
- Nothing that a page keeps outlives the visit: timers are removed with the page.
- What changes something is an `Action` with its role. `elements.action(visit, Action.X, …)` makes its button,
  which is not there for those who may not, asks `visit.must(Action.X)` when it is pressed, and shows errors
  as a notice.
- A topic that the address names is asked of `visit.topic()`, which knows who may look into it.
- An error for people is a `HeadwaterError`; any other is shown as one sentence too, and logged.
- To go elsewhere: `ui.link(text, "/topics/orders")` or `ui.navigate.to(…)`; both stay within the page. Names
  that may hold any character (groups, keys) go into the query (`addresses.link("/groups", id=…)`).
- The heading is `elements.heading(title, sentence)`; every control has a text or an `aria-label`; what is
  absent is said with `elements.absent(sentence, remedy)`.
- Looks: Quasar's classes, and the variables and classes of static/console.css; no Tailwind.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module

from headwater.console.context import Context, Visit
from headwater.project.roles import Role


@dataclass(frozen=True)
class Page:
    """One kind of address, and what is shown there."""

    path: str
    title: str
    show: Callable[[Visit], Awaitable[None] | None]
    icon: str = "article"
    order: int | None = None
    """Its place in the navigation; None: not there."""
    role: Role = Role.READER
    """The least that may look at it."""
    is_there: Callable[[Context], bool] = lambda _: True
    """Whether this console has it."""


def all_pages() -> list[Page]:
    """Every page of every module here, those of the navigation first and in their order."""
    found: list[Page] = []
    for module in pkgutil.iter_modules(__path__):
        found += getattr(import_module(f"{__name__}.{module.name}"), "PAGES", [])
    return sorted(found, key=lambda page: (page.order is None, page.order or 0))
