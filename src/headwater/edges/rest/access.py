"""Who may see and do what below /v3 and /consumers, by the scopes of [edges.tokens]; every route asks here.

| to                                     | needs                                |
|----------------------------------------|--------------------------------------|
| see that a topic is there, its settings| `read`, `write` or `admin` of it     |
| produce                                | `write`                              |
| create, configure, delete              | `admin`                              |
| subscribe                              | `read` of the topic and `group:NAME` |
| see a group, be a member of it         | `read` of `group:NAME`               |

The log's own topics do not exist here, whatever a token may.
"""

from __future__ import annotations

from starlette.requests import Request

from headwater.client.namespace import is_own
from headwater.edges.errors import Forbidden
from headwater.edges.guard import may, who
from headwater.edges.rest.answers import RestError
from headwater.edges.tokens import Need

NO_TOPIC, NO_PARTITION, NO_INSTANCE = 40401, 40402, 40403
_SEEN = ("read", "write", "admin")


def sees(request: Request, topic: str) -> bool:
    return not is_own(topic) and any(may(request, Need(way, topic)) for way in _SEEN)


def sees_group(request: Request, group: str) -> bool:
    return not group.startswith("__") and may(request, Need("read", f"group:{group}"))


def check_topic(request: Request, topic: str, way: str | None = None) -> None:
    """Without a `way`: to look at it. Raises 404 for the log's own, Forbidden."""
    if is_own(topic):
        raise no_topic(topic)
    if way is None:
        if not sees(request, topic):
            raise _forbidden(request, "read", topic)
    elif not may(request, Need(way, topic)):
        raise _forbidden(request, way, topic)


def check_group(request: Request, group: str) -> None:
    if not sees_group(request, group):
        raise _forbidden(request, "read", f"group:{group}")


def no_topic(topic: str) -> RestError:
    return RestError(
        NO_TOPIC, f"there is no topic {topic[:249]!r}: GET …/topics shows those that exist"
    )


def _forbidden(request: Request, way: str, what: str) -> Forbidden:
    name = who(request)
    return Forbidden(
        f"the token {name} may not {way} {what[:260]}",
        hint=f"add it to {way} = […] of [edges.tokens.{name}]",
    )
