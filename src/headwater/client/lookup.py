"""One topic looked up by its name; what asks for it does not make it, and the others are not listed.

Called by `Log.partitions` and by the REST interface of the edges. A metadata request of librdkafka for one
name may create the topic, and one for all takes as long as there are topics; DescribeTopics does neither.
"""

from __future__ import annotations

import re

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from headwater.client.errors import BrokerUnreachable, NotThere, translated

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NOT_THERE = (
    "UNKNOWN_TOPIC_OR_PART",
    "TOPIC_EXCEPTION",
    "TOPIC_AUTHORIZATION_FAILED",  # whoever may not see it does not hear of it, as in a list
)


def replicas(admin: AdminClient, topic: str, bootstrap: str, timeout_s: float) -> dict[int, int]:
    """Partition → how many it has. Raises NotThere, BrokerUnreachable, RequestRefused."""
    if not _NAME.fullmatch(topic):  # half a surrogate pair would end confluent-kafka's process
        raise _not_there(topic)
    try:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
        found = asked[topic].result().partitions
    except KafkaException as failure:
        error = failure.args[0]
        if error.name() in _NOT_THERE:
            raise _not_there(topic) from None
        if error.name() != "LEADER_NOT_AVAILABLE":
            raise translated(error, "listing topics", bootstrap) from None
        found = []
    if not found:
        raise BrokerUnreachable(f"no partition of {topic!r} is known yet", hint="ask again")
    return {each.id: len(each.replicas) for each in found}


def _not_there(topic: str) -> NotThere:
    return NotThere(
        f"there is no topic {topic!r}",
        hint="headwater topics list shows those that exist, headwater topics create makes one",
    )
