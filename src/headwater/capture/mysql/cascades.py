"""Foreign keys whose actions are in no binary log; for `preflight`, and told while a capture runs.

InnoDB carries them out below the log. From MySQL 9.6 on the server does it itself, above its log, unless it
is told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.capture.mysql.address import Address
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.schema import Table
from headwater.capture.source import Finding


def cascades(
    connection: Connection, address: Address, now: Mapping[str, Table]
) -> Iterator[Finding]:
    if connection.settings("innodb_native_foreign_keys")["innodb_native_foreign_keys"] == "OFF":
        return
    for table, name, delete, update in connection.execute(
        "SELECT TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE "
        "FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s",
        [address.database],
    ):
        rules = [
            f"ON {event} {rule}"
            for event, rule in (("DELETE", delete), ("UPDATE", update))
            if rule in ("CASCADE", "SET NULL")
        ]
        if table in now and rules:
            sentence = f"rows that {name} changes ({', '.join(rules)}) are not in the binary log"
            remedy = (
                f"ALTER TABLE `{address.database}`.`{table}` DROP FOREIGN KEY `{name}`, "
                "ADD FOREIGN KEY (…) REFERENCES … (…); and change the rows by statements"
            )
            yield Finding(f"table {table}", False, sentence, remedy)


class Cascades:
    """Told once each, also of foreign keys that are made while the capture runs."""

    def __init__(self) -> None:
        self._seen: Mapping[str, Table] | None = None
        self._told: set[str] = set()

    def untold(
        self, connection: Connection, address: Address, now: Mapping[str, Table]
    ) -> str | None:
        """`now`: another one after each statement that changed tables."""
        if now is self._seen:
            return None
        self._seen = now
        said = [f"{found.name}: {found.sentence}" for found in cascades(connection, address, now)]
        new = [sentence for sentence in said if sentence not in self._told]
        self._told.update(new)
        return "; ".join(new) or None
