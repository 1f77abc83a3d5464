"""A random workload by seed that knows what it committed; called by `test_random`.

Every write sets the column `stamp` to a new number, so it is known in the end which change of which key
must be in the log, once, and in which order.
"""

from __future__ import annotations

import random
import uuid
from typing import Any

from tests.capture.mysql.server import MariaDB

KEYS = 60
TYPES = {
    "v_int": ("INT", lambda r: r.randint(-(2**31), 2**31 - 1)),
    "v_big": ("BIGINT UNSIGNED", lambda r: r.randint(0, 2**64 - 1)),
    "v_dec": (
        "DECIMAL(30,10)",
        lambda r: f"{r.randint(-(10**19), 10**19)}.{r.randint(0, 10**10 - 1):010d}",
    ),
    "v_dbl": ("DOUBLE", lambda r: r.uniform(-1e9, 1e9)),
    "v_flt": ("FLOAT", lambda r: r.uniform(-1e6, 1e6)),
    "v_txt": ("VARCHAR(80)", lambda r: "".join(r.choices('aä"\\\n😀 z', k=r.randint(0, 40)))),
    "v_lat": (
        "VARCHAR(40) CHARACTER SET latin1",
        lambda r: "".join(r.choices("éÿ€abc", k=r.randint(0, 40))),
    ),
    "v_bin": ("VARBINARY(300)", lambda r: r.randbytes(r.randint(0, 300))),
    "v_blob": (
        "LONGBLOB",
        lambda r: r.randbytes(r.choice([0, 10, 1000, 200_000 if r.random() < 0.1 else 5])),
    ),
    "v_date": (
        "DATE",
        lambda r: f"{r.randint(1, 9999):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}",
    ),
    "v_dt": (
        "DATETIME(6)",
        lambda r: f"20{r.randint(10, 99)}-01-02 03:04:05.{r.randint(0, 999999):06d}",
    ),
    "v_ts": (
        "TIMESTAMP(3) NULL",
        lambda r: (
            f"2{r.randint(0, 9):03d}"[:0]
            + f"20{r.randint(10, 37)}-05-06 07:08:09.{r.randint(0, 999):03d}"
        ),
    ),
    "v_time": (
        "TIME(2)",
        lambda r: f"{r.choice(['', '-'])}{r.randint(0, 838)}:{r.randint(0, 59):02d}:01.5",
    ),
    "v_bit": ("BIT(11)", lambda r: r.randint(0, 2**11 - 1)),
    "v_enum": ("ENUM('a','ö','c')", lambda r: r.choice(["a", "ö", "c"])),
    "v_set": ("SET('x','y','z')", lambda r: ",".join(r.sample(["x", "y", "z"], r.randint(0, 3)))),
    "v_uuid": ("UUID", lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
    "v_year": ("YEAR", lambda r: r.choice([0, 1901, 2155])),
}

Event = tuple[str, int, int]
"""op, key, stamp."""


class Workload:
    """Writes to `t` and `u`; `events` has what is committed, per table."""

    def __init__(self, server: MariaDB, database: str, seed: int) -> None:
        self._server = server
        self._database = database
        self._random = random.Random(seed)
        self._stamp = 0
        self._connection: Any = None
        self.rows: dict[str, dict[int, int]] = {"t": {}, "u": {}}
        self.columns: dict[str, set[str]] = {"t": set(TYPES), "u": set(TYPES)}
        self.events: dict[str, list[Event]] = {"t": [], "u": []}
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
        server.execute(
            *(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, stamp INT, {columns})"
                for table in ("t", "u")
            ),
            database=database,
        )

    def _connect(self) -> Any:
        if self._connection is None:
            self._connection = self._server.connect(self._database, autocommit=False)
            with self._connection.cursor() as cursor:
                cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        return self._connection

    def leave_open(self) -> None:
        """Write without a commit; the server is killed next, and all of it must be gone."""
        state = ({name: dict(rows) for name, rows in self.rows.items()}, {"t": [], "u": []})
        with self._connect().cursor() as cursor:
            for _ in range(5):
                self._write(cursor, "t", state)
        self._connection = None

    def step(self) -> None:
        """One transaction, or a statement that changes a table."""
        if self._random.random() < 0.06:
            self._alter()
        else:
            self._transaction()

    def _transaction(self) -> None:
        choose = self._random
        connection = self._connect()
        state = ({name: dict(rows) for name, rows in self.rows.items()}, {"t": [], "u": []})
        saved: list[Any] = []
        with connection.cursor() as cursor:
            for _ in range(choose.randint(1, 6)):
                action = choose.random()
                if action < 0.1:
                    cursor.execute(f"SAVEPOINT s{len(saved)}")
                    saved.append(_copy(state))
                elif action < 0.18 and saved:
                    place = choose.randrange(len(saved))
                    cursor.execute(f"ROLLBACK TO SAVEPOINT s{place}")
                    state = _copy(saved[place])
                    del saved[place + 1 :]
                else:
                    self._write(cursor, choose.choice("ttu"), state)
            if choose.random() < 0.15:
                connection.rollback()
                return
            connection.commit()
        self._keep(state)

    def _keep(self, state: Any) -> None:
        self.rows = state[0]
        for table, events in state[1].items():
            self.events[table] += events

    def _write(self, cursor: Any, table: str, state: Any) -> None:
        choose = self._random
        rows, events = state[0][table], state[1][table]
        key = choose.randrange(KEYS)
        self._stamp += 1
        if key not in rows:
            self._insert(cursor, table, key)
            events.append(("c", key, self._stamp))
            rows[key] = self._stamp
        elif choose.random() < 0.3:
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", [key])
            events.append(("d", key, rows.pop(key)))
        elif choose.random() < 0.3:
            self._move(cursor, table, key, rows, events)
        else:
            self._update(cursor, table, key)
            events.append(("u", key, self._stamp))
            rows[key] = self._stamp

    def _move(
        self, cursor: Any, table: str, key: int, rows: dict[int, int], events: list[Event]
    ) -> None:
        other = KEYS + self._stamp
        cursor.execute(
            f"UPDATE {table} SET id = %s, stamp = %s WHERE id = %s", [other, self._stamp, key]
        )
        events += [("d", key, rows.pop(key)), ("c", other, self._stamp)]
        rows[other] = self._stamp

    def _values(self, table: str) -> dict[str, Any]:
        choose = self._random
        return {
            name: None if choose.random() < 0.2 else TYPES[name.rstrip("0123456789")][1](choose)
            for name in sorted(self.columns[table])
        }

    def _insert(self, cursor: Any, table: str, key: int) -> None:
        values = {"id": key, "stamp": self._stamp, **self._values(table)}
        places = ", ".join(["%s"] * len(values))
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", list(values.values())
        )

    def _update(self, cursor: Any, table: str, key: int) -> None:
        values = self._values(table)
        chosen = {name: values[name] for name in self._random.sample(sorted(values), 3)}
        chosen["stamp"] = self._stamp
        given = ", ".join(f"{name} = %s" for name in chosen)
        cursor.execute(f"UPDATE {table} SET {given} WHERE id = %s", [*chosen.values(), key])

    def _alter(self) -> None:
        choose = self._random
        table = choose.choice("tu")
        columns = self.columns[table]
        name = choose.choice(sorted(columns))
        kind = TYPES[name.rstrip("0123456789")][0]
        action = choose.random()
        if action < 0.3 and len(columns) > 8:
            statement = f"DROP COLUMN {name}"
            columns.discard(name)
        elif action < 0.7:
            self._stamp += 1
            added = f"{choose.choice(sorted(TYPES))}{self._stamp}"
            kind = TYPES[added.rstrip("0123456789")][0]
            statement = f"ADD COLUMN {added} {kind} AFTER {name}"
            columns.add(added)
        else:
            statement = f"MODIFY {name} {kind} FIRST"
        with self._connect().cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} {statement}")


def _copy(state: Any) -> Any:
    rows, events = state
    return (
        {name: dict(part) for name, part in rows.items()},
        {name: list(part) for name, part in events.items()},
    )
