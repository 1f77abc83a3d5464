"""A random workload, from a seed, with a journal of every committed change.

The journal is written by triggers in the same transactions, so it has what was committed and nothing
else, whoever was killed when. It is not captured; the topics are compared with it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, NamedTuple

import psycopg

SCHEMA = """
CREATE TYPE mood AS ENUM ('calm', 'brisk', 'wild');
CREATE TABLE accounts (
    id int PRIMARY KEY, stamp bigint NOT NULL, owner text, balance numeric, big text, tags text[],
    at timestamptz, data bytea, mood mood, document jsonb, span int4range, took interval, ratio float8);
ALTER TABLE accounts ALTER big SET STORAGE EXTERNAL;
CREATE TABLE ledger (
    book int, line text, stamp bigint NOT NULL, big text, seen uuid, PRIMARY KEY (book, line));
ALTER TABLE ledger ALTER big SET STORAGE EXTERNAL;
ALTER TABLE ledger REPLICA IDENTITY FULL;
CREATE TABLE journal (
    n bigserial PRIMARY KEY, xid bigint, lsn pg_lsn, tab text, op text, old text, new text, stamp bigint);
CREATE SEQUENCE stamps;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE old_key text; new_key text; stamped bigint;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        old_key := CASE TG_TABLE_NAME WHEN 'accounts' THEN to_jsonb(OLD)->>'id'
                   ELSE (to_jsonb(OLD)->>'book') || '/' || (to_jsonb(OLD)->>'line') END;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        stamped := NEW.stamp;
        new_key := CASE TG_TABLE_NAME WHEN 'accounts' THEN to_jsonb(NEW)->>'id'
                   ELSE (to_jsonb(NEW)->>'book') || '/' || (to_jsonb(NEW)->>'line') END;
    END IF;
    INSERT INTO journal (xid, lsn, tab, op, old, new, stamp) VALUES (
        (pg_current_xact_id()::text::bigint) % 4294967296, pg_current_wal_insert_lsn(),
        TG_TABLE_NAME, TG_OP, old_key, new_key, stamped);
    RETURN NULL;
END $$;
INSERT INTO accounts SELECT n, nextval('stamps'), 'first ' || n FROM generate_series(1, 600) n;
INSERT INTO ledger SELECT n % 7, 'line ' || n, nextval('stamps') FROM generate_series(1, 300) n;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION note();
"""

_ACCOUNT = """
INSERT INTO accounts (id, stamp, owner, balance, big, tags, at, data, mood, document, span, took, ratio)
VALUES (%s, nextval('stamps'), %s, %s, %s, %s, now(), %s, 'brisk', '{"a": [1, null]}', '[1,5)',
        interval '1 day 2 hours', %s)
ON CONFLICT (id) DO UPDATE SET stamp = nextval('stamps'), owner = excluded.owner
"""


class Change(NamedTuple):
    op: str
    key: str
    stamp: int | None


class Workload:
    """Transactions by seed; each call does one, and survives a server that goes away."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._random = random.Random(seed)
        self._connection: psycopg.Connection[Any] | None = None
        self._columns = 0

    def transaction(self) -> None:
        chance = self._random
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, connect_timeout=5)
            self._statements(self._connection)
            if chance.random() < 0.12:
                self._connection.rollback()
            else:
                self._connection.commit()
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _statements(self, connection: psycopg.Connection[Any]) -> None:
        chance = self._random
        if chance.random() < 0.04:
            self._alter(connection)
        large = chance.random() < 0.06
        for n in range(chance.randint(60, 200) if large else chance.randint(1, 8)):
            if chance.random() < 0.08:
                with connection.cursor() as cursor:
                    cursor.execute("SAVEPOINT here")
                    self._change(connection)
                    self._change(connection)
                    cursor.execute("ROLLBACK TO here" if chance.random() < 0.5 else "RELEASE here")
            self._change(connection, big=large and n % 3 == 0)

    def _alter(self, connection: psycopg.Connection[Any]) -> None:
        if self._columns and self._random.random() < 0.5:
            connection.execute(f"ALTER TABLE accounts DROP IF EXISTS extra{self._columns}".encode())
        else:
            self._columns += 1
            connection.execute(
                f"ALTER TABLE accounts ADD IF NOT EXISTS extra{self._columns} int".encode()
            )

    def _change(self, connection: psycopg.Connection[Any], big: bool = False) -> None:
        chance = self._random
        number, line = chance.randint(1, 900), f"line {chance.randint(1, 400)}"
        text = "".join(chance.choices("äb\t\\\n\"'", k=20)) * (300 if big else 1)
        kind = chance.randrange(7)
        if kind == 0:
            values = [number, text, chance.randint(-99, 99), text, [text, None], b"\0\xff\\", 0.1]
            connection.execute(_ACCOUNT, values)
        elif kind == 1:  # leaves a large value as it is
            connection.execute(
                "UPDATE accounts SET stamp = nextval('stamps'), owner = %s WHERE id = %s",
                [text, number],
            )
        elif kind == 2:
            connection.execute("DELETE FROM accounts WHERE id = %s", [number])
        elif kind == 3:
            connection.execute(
                "INSERT INTO ledger VALUES (%s, %s, nextval('stamps'), %s, gen_random_uuid()) "
                "ON CONFLICT DO NOTHING",
                [number % 7, line, text],
            )
        elif kind == 4:  # another key
            connection.execute(
                "UPDATE ledger SET stamp = nextval('stamps'), book = book + 7, "
                "line = 'moved ' || nextval('stamps') WHERE book = %s AND line = %s",
                [number % 7, line],
            )
        elif kind == 5:
            connection.execute(
                "UPDATE ledger SET stamp = nextval('stamps') WHERE book = %s AND line = %s",
                [number % 7, line],
            )
        else:
            connection.execute(
                "DELETE FROM ledger WHERE book = %s AND line = %s", [number % 7, line]
            )


def journal(url: str) -> tuple[dict[int, list[Change]], dict[int, int]]:
    """What each transaction changed, in order; and the WAL's end at its last change."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT xid, (lsn - '0/0')::int8, tab, op, old, new, stamp FROM journal ORDER BY n"
        ).fetchall()
    found: dict[int, list[Change]] = defaultdict(list)
    ends: dict[int, int] = {}
    for xid, lsn, table, op, old, new, stamp in rows:
        ends[xid] = int(lsn)
        if op == "INSERT":
            found[xid].append(Change("c", f"{table}/{new}", stamp))
        elif op == "DELETE":
            found[xid].append(Change("d", f"{table}/{old}", None))
        elif old == new:
            found[xid].append(Change("u", f"{table}/{new}", stamp))
        else:
            found[xid].append(Change("d", f"{table}/{old}", None))
            found[xid].append(Change("c", f"{table}/{new}", stamp))
    return dict(found), ends
