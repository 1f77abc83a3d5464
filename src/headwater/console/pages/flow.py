"""The front page: sources, topics, queries and views as one picture."""

from __future__ import annotations

from headwater.console import elements
from headwater.console.context import Visit
from headwater.console.pages import Page


def show(visit: Visit) -> None:
    elements.heading("Flow", "What comes in, what becomes of it, and where it hurts.")


PAGES = [Page("/", "Flow", show, icon="account_tree", order=0)]
