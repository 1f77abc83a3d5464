"""Who may see and do what below /v3 and /consumers, by the scopes of [edges.tokens]; every route asks here.

| to                                     | needs                                |
|----------------------------------------|--------------------------------------|
| see that a topic is there, its settings| `read`, `write` or `admin` of it     |
| produce                                | `write`                              |
| create, configure, delete              | `admin`                              |
| subscribe                              | `read` of the topic and `group:NAME` |
| see a group, be a member of it         | `read` of `group:NAME`               |
| be a member of headwater's own         | nobody                               |

The log's own topics do not exist here, whatever a token may.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from starlette.requests import Request

from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.client.namespace import is_ours_to_write, is_own, is_own_group
from headwater.edges.caller import may, refused, who
from headwater.edges.rest.answers import RestError
from headwater.edges.tokens import Need
from headwater.edges.topics import Topics
from headwater.on_behalf import client_id

NO_TOPIC, NO_PARTITION, NO_INSTANCE = 40401, 40402, 40403
PROGRAM = "headwater-edges"
_OWN = ("bootstrap.servers", "error_cb")
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
            raise refused(request, Need("read", topic))
    elif not may(request, Need(way, topic)) or (way == "write" and is_ours_to_write(topic)):
        raise refused(request, Need(way, topic))


def check_topics(request: Request, topics: Iterable[str]) -> None:
    """That all of them may be read."""
    for each in topics:
        check_topic(request, each, "read")


def check_group(request: Request, group: str) -> None:
    if not sees_group(request, group):
        raise refused(request, Need("read", f"group:{group}"))


def check_member(request: Request, group: str) -> None:
    """That it may be read by: headwater's own groups may be looked at, and nobody joins them by HTTP."""
    check_group(request, group)
    if is_own_group(group):
        raise RestError(403, f"{group[:249]} is a group of headwater's own: choose another name")


async def check_there(topics: Topics, name: str) -> None:
    """Raises 404 with the code that clients know."""
    try:
        await topics.find(name)
    except NotThere:
        raise no_topic(name) from None


async def check_readable(request: Request, topics: Topics, names: Collection[str]) -> None:
    """That all of them are there, and may be read."""
    check_topics(request, names)
    for each in names:
        await check_there(topics, each)


def acting(request: Request, log: Log) -> Log:
    """For one change: the broker's audit names who has asked for it beside the edges' own principal."""
    own = {name: each for name, each in log.settings.items() if name not in _OWN}
    name = who(request)
    said = client_id(PROGRAM, name) if name else PROGRAM  # a principal's name is a stranger's text
    return Log(log.bootstrap, {**own, "client.id": said})


def no_topic(topic: str) -> RestError:
    return RestError(
        NO_TOPIC, f"there is no topic {topic[:249]!r}: GET …/topics shows those that exist"
    )
