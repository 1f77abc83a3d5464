"""The names of topics that are the log's own: offsets, keys, excisions, what was changed by whom.

Asked by whoever lets others choose a topic: the console, the edges, and dead letters, whose headers say where
they want to go. Only these names are looked at; what a principal may do with a topic is the broker's to say.
"""

from __future__ import annotations

import re

from headwater.client.errors import RequestRefused

KEY_TOPICS = ("__headwater_keys", "headwater.keys")
"""Of personal data: whoever reads the topics that they have sealed must not have them."""


SCHEMAS = "_schemas"
"""A registry's: who writes there otherwise gives ids that it does not know of."""

SINK = "_headwater_sink"
"""Which batches of which query are committed, and of what they consist (`spark.sink`): by somebody else's
record a query would end others' transactions, or pass over what it has not written."""

ALERTS = "headwater.alerts"
"""What alerts have said, and all that they remember: anybody may read it."""


_AGAIN = re.compile(r"(webhooks|alerts)\..+\.again", re.DOTALL)
"""Of the edges: what lies there is signed and sent, told or run as if a webhook or a rule had said it."""


def is_own(topic: str) -> bool:
    """Whether it belongs to the log."""
    return topic.startswith("__") or topic in (*KEY_TOPICS, SCHEMAS, SINK)


def is_own_group(group: str) -> bool:
    """Whether its position is that of a webhook, a bridge or an alert of the edges, of a query, a sink or a
    replay: who is a member of it takes their records or keeps them from committing, and by a commit of his
    own they are never delivered, or a view counts as further than it is."""
    return group.startswith(("__", "headwater.", "headwater-"))


def is_ours_to_write(topic: str) -> bool:
    """Whether records of strangers have no place there: in the log's own, among what alerts have said, and
    among what the edges are to deliver again."""
    return _is_told(topic) or _AGAIN.fullmatch(topic) is not None


def _is_told(topic: str) -> bool:
    return is_own(topic) or topic == ALERTS


def refuse_own(topic: str) -> None:
    """Before records go to a topic that somebody else has named: there they would excise, or forget a key.
    Dead letters go where they are delivered again."""
    if _is_told(topic):
        raise RequestRefused(
            f"{topic} is the log's own, and no records are sent there from here",
            hint="name a topic of yours; to remove data there are headwater excise and headwater forget",
        )
