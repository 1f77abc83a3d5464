"""Which topic a table's changes go to: NAME.table, and never two tables to one. For every source.

What a topic's name cannot have becomes an underscore, so two names can become one topic ("a b" and
a_b; t of the schema s and "s.t" of public). Rows of equal keys would then overwrite each other for
every reader, so the second table is refused in words.
"""

from __future__ import annotations

from headwater.capture.errors import Misconfigured


def topic_of(capture: str, table: str) -> str:
    legal = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in table)
    return f"{capture}.{legal}"


def shared(topic: str, one: str, other: str) -> Misconfigured:
    return Misconfigured(
        f"the tables {one!r} and {other!r} would share the topic {topic}",
        hint="rename one of them, or name only one of them in `tables`",
    )


class TopicOwners:
    """Which table each topic of a capture is of, by a table's number or name, which outlives a rename."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[object, str]] = {}

    def claim(self, topic: str, table: str, identity: object = None) -> str:
        """The topic, as this table's from now on."""
        known = self._owners.setdefault(topic, (identity, table))
        if known != (identity, table):
            if known[1] != table and (identity is None or known[0] != identity):
                raise shared(topic, known[1], table)
            self._owners[topic] = (identity, table)
        return topic

    def owner(self, topic: str) -> tuple[object, str] | None:
        """Whose it is: the table's number or None, and its name."""
        return self._owners.get(topic)

    def release(self, topic: str) -> None:
        """Its table is gone."""
        self._owners.pop(topic, None)
