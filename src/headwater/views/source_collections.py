"""Which of a view's topics the END of a source transaction speaks of: its collections, by exact names.

Called by `source_transactions`. END names a table as its source does, and captures name topics by rules:

    END says          topic, in a capture named shop
    shop.orders       shop.orders             a capture of SQLite: the topic itself
    sales.orders      shop.sales.orders       Debezium, and schemas of PostgreSQL but public
    public.orders     shop.orders             PostgreSQL's schema public
    DATABASE.orders   shop.orders             MySQL and MariaDB: a capture has one database

The last two look alike, and a table of the same name in another schema must not be taken for it: so what the
events of a topic say of their own source decides, as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

OF_MARKS = ".transaction"
Origins = Mapping[str, str]
"""Topic → the collection that its events say they are of."""


def table_of(
    collection: str, marks: str, tables: Sequence[str], origins: Origins | None = None
) -> str | None:
    """The view's topic for a collection; `marks` is the topic of BEGIN and END."""
    capture = marks.removesuffix(OF_MARKS)
    for topic in (collection, f"{capture}.{_legal(collection)}"):
        if topic in tables:
            return topic
    short = f"{capture}.{_legal(collection.rpartition('.')[2])}"
    is_its_own = (origins or {}).get(short, collection) == collection
    return short if short in tables and is_its_own else None


def origins_of(said: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """From topics and what an event in them says; capture writes one table into one topic."""
    return {topic: collection for topic, collection in said if collection is not None}


def _legal(name: str) -> str:
    """As captures write names into topics': what these cannot have is an underscore."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
