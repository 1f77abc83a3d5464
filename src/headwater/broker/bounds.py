"""How much of what strangers say may become state: one table.

A string of a request has a bound where the request is walked (`wire.guard`: 32,767 bytes, as in Kafka).
What stays longer than its request is bounded here; handlers ask before they change anything, for a
group whose record cannot be written would be refused again and again, with all of its members.

    string of any request        32,767 bytes   wire.guard      INVALID_REQUEST, or the connection ends
    topic's name                 249 letters    topics          INVALID_TOPIC_EXCEPTION
    topics that one request      1,000          k19             POLICY_VIOLATION
      makes                                     k03             UNKNOWN_TOPIC_OR_PARTITION: ask again
    configs told of groups and   50,000         k32             POLICY_VIOLATION
      subscriptions with none
      of their own
    config's value, also grown   32,767 bytes   settings.alter  INVALID_CONFIG
    ids in groups, client's id   8,000 letters  groups          INVALID_GROUP_ID, INVALID_REQUEST
    names of users, clients,     8,000 letters  k30, k49, k51   INVALID_REQUEST, UNACCEPTABLE_CREDENTIAL
      hosts and resources                         settings
    all of those, in number      the budget     state_budget    KAFKA_STORAGE_ERROR
    members of a group           5,000           groups          GROUP_MAX_SIZE_REACHED
    all that members of a        16 MiB          groups.sync     UNKNOWN_SERVER_ERROR
      classic group are assigned
    member's metadata            480 KiB        k11_join_group  INVALID_REQUEST
    member's subscription        512 KiB        here            INVALID_REQUEST
    streams group's topology     512 KiB        groups.streams  STREAMS_INVALID_TOPOLOGY
    its subtopologies            400            groups.streams  STREAMS_INVALID_TOPOLOGY
    their ids                    249 bytes      groups.streams  STREAMS_INVALID_TOPOLOGY
    topics and copartition       10,000         groups.streams  STREAMS_INVALID_TOPOLOGY
      groups in it
    streams group's tasks        4,000          groups.streams  a status for its members
    record of a group            the topic's    offsets_topic   UNKNOWN_SERVER_ERROR
      max.message.bytes
    offsets in one write         eight times    offsets_topic   INVALID_COMMIT_OFFSET_SIZE
      as much
    salt, salted password        1 KiB          k51             UNACCEPTABLE_CREDENTIAL
"""

from __future__ import annotations

from collections.abc import Collection

TOPIC_NAME_CHARS_MAX = 249
TOPICS_MADE_MAX = 1000
DEFAULTS_TOLD_MAX = 50_000
"""In one answer: a request may name very many groups that nobody knows, and each would have all of them."""
CONFIG_VALUE_BYTES_MAX = 0x7FFF
"""Kafka's: a value is written with an int16 length there."""
NAME_CHARS_MAX = 8_000
"""A name of this many characters, at most 4 bytes each, and an id made of it, fits an int16 length."""
GROUP_MEMBERS_MAX = 5_000
"""All are looked at when one comes or goes. Kafka's default for a record, a megabyte, has room for fewer
members of a classic group."""
GROUP_BYTES_MAX = 16 * 1024 * 1024
"""Of a classic group's record, whatever `max.message.bytes` allows: it is made in one turn."""
METADATA_BYTES_MAX = 480 * 1024
"""Of one member of a classic group, which holds it for as long as the member is in it. Twice as much, for
a group that is being migrated, fits a record."""
SUBSCRIPTION_BYTES_MAX = 512 * 1024
TOPOLOGY_BYTES_MAX = 512 * 1024
"""Of a streams group, which holds it for as long as it is there: one record."""
SUBTOPOLOGIES_MAX = 400
TOPOLOGY_PARTS_MAX = 10_000
"""Topics and copartition groups, each as often as it is named: all are looked at in one turn of the event
loop."""
SUBTOPOLOGY_ID_BYTES_MAX = 249
"""As of a topic: a member's assignment names it once for each role, and is one record."""
WRITES_OF_OFFSETS = 8
"""So many times `max.message.bytes` may be written to `__consumer_offsets` at once: a commit of ten
thousand partitions."""
SECRET_BYTES_MAX = 1024


def shown(name: str, chars: int = 60) -> str:
    """A client's name as a sentence may say it, once per row too: longer than any topic's, it is cut."""
    is_short = len(name) <= TOPIC_NAME_CHARS_MAX
    return name if is_short else f"{name[:chars]}… ({len(name)} characters)"


def logged(name: str) -> str:
    """The same for a line of the log, which it must not break."""
    return shown(name) if name.isprintable() else repr(shown(name))


def subscription_problem(names: Collection[str] | None) -> str | None:
    """What is wrong with the topics that a member subscribes to; None: nothing."""
    size = 0
    for name in names or ():
        if len(name) > TOPIC_NAME_CHARS_MAX:
            return f"SubscribedTopicNames has a name of {len(name)} characters, which no topic has."
        size += len(name)
    if size > SUBSCRIPTION_BYTES_MAX:
        return f"SubscribedTopicNames has more than {SUBSCRIPTION_BYTES_MAX} bytes."
    return None
