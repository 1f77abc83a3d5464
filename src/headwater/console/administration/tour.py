"""The demo's tour: an order written to its shop, and its broker killed. In no other project."""

from __future__ import annotations

from headwater.client.errors import NotThere
from headwater.console.actions import Action
from headwater.console.context import Context, Visit
from headwater.project.demo.shop.tour import Order, Tour, tour_of


def of(context: Context) -> Tour:
    """Raises NotThere wherever this is not the demo."""
    found = tour_of(context.project)
    if found is None:
        raise NotThere("the tour is for the demo", hint="start it with: headwater demo --stay")
    return found


def write_order(visit: Visit) -> Order:
    visit.must(Action.WRITE_DEMO_ORDER)
    return of(visit.context).write()


def kill_broker(visit: Visit) -> int:
    """The process that it was."""
    visit.must(Action.KILL_DEMO_BROKER)
    return of(visit.context).kill_broker()
