"""Views: where each lives, how fresh it is, when it was verified; a view's own page is `views_one`."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.console import elements
from headwater.console.cards import Cards, Said
from headwater.console.context import Visit
from headwater.console.forms.views import ViewCard
from headwater.console.live import keep
from headwater.console.pages import Page
from headwater.console.watching.views import ViewNow


def show(visit: Visit) -> None:
    elements.heading(
        "Views", "What queries have made of the log, where it lives, and how fresh it is."
    )
    mistake = Said("hw-wrong hw-wrap", role="alert")
    absent = elements.absent(
        "There are no views yet.",
        "A function with @hw.view in a file of pipelines/ makes one.",
        icon="table_chart",
    )
    absent.set_visibility(False)
    chosen = visit.query.get("name")
    cards = Cards[ViewNow](
        lambda v: v.name, lambda v: ViewCard(visit, v, chosen=v.name == chosen), "hw-grid-wide"
    )

    def draw(found: Sequence[ViewNow]) -> None:
        said = visit.context.watch.views.mistake()
        mistake.set(None if said is None else f"The pipeline files cannot be read: {said}")
        absent.set_visibility(not found)
        cards.draw(sorted(found, key=lambda v: v.name != chosen))

    keep(visit.context.watch.views.now, draw, 1.0)


PAGES = [Page("/views", "Views", show, icon="table_chart", order=50)]
