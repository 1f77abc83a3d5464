"""Webhooks out: every record of a topic to a receiver, signed, in order per key, again until it is taken.

subscription  [edges.webhooks.NAME]              subscriber   the service
account       read, delivered, noted; pure       member       one in a consumer group
retry         waits and the breaker; pure        deliverer    many keys at once
addresses     which may be called                poster       the signed request
letters       what could not be delivered        delivery     one record on its way, and what became of it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.edges.webhooks.subscription import check as check

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service

GROUP = "headwater.webhook."


def services(context: Context) -> list[Service]:
    """One for each [edges.webhooks.NAME]."""
    from headwater.edges.webhooks.poster import Poster
    from headwater.edges.webhooks.subscriber import Subscriber, Wanted
    from headwater.edges.webhooks.subscription import Subscription, read

    def wanted(each: Subscription) -> Wanted:
        return Wanted(
            f"webhooks.{each.name}",
            GROUP + each.name,
            each.topic,
            lambda: Poster(each.posting),
            each.filter,
            each.start,
            each.parallel,
            each.retrying,
        )

    sections = context.edges.webhooks.items()
    return [
        Subscriber(wanted(read(name, section)), context.log, context.appender, context.edges.name)
        for name, section in sections
    ]
