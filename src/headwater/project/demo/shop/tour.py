"""What a visitor of the demo's console does himself: write an order, find it again, kill the broker.

Called by the console, which asks first who may. Only in the project that the demo has made: a file beside its
headwater.toml says so, and anywhere else there is no `Tour`. Numbers of a tour begin where the load generator
never comes. After the shop has closed nothing is written any more: what is compared then must not change.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwater.browse.pages import Bounds, page
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.errors import HeadwaterError
from headwater.project import record
from headwater.project.demo.shop import stores
from headwater.project.demo.shop.database import (
    CITIES,
    DATABASE_VARIABLE,
    Database,
    PostgreSQL,
    Shop,
    SQLite,
)
from headwater.project.demo.shop.verification import BELL
from headwater.project.file import Project
from headwater.project.parts import BROKER

MARK = "demo.json"
"""Beside headwater.toml: this project is the demo's, and how its database is reached."""
FIRST = 1_000_000
TOPIC = "shop.orders"
ITEM, CENTS = "canoe", 48_000
MINUTE_MS = 60_000
Row = Mapping[str, object]
_BACK = Bounds(scanned_max=50_000, seconds=5.0)


class TourOver(HeadwaterError):
    """The demo has come to its end, or what was asked for is not there yet."""


@dataclass(frozen=True)
class Order:
    """As it was written; `payments`: of its minute, its own included."""

    number: int
    name: str
    city: str
    at: int
    payments: int


class Tour:
    """Of one demo."""

    def __init__(self, project: Project, database: str) -> None:
        self._project, self._database = project, database
        self._lock = threading.Lock()

    @property
    def views(self) -> dict[str, str]:
        """Name → address, as seen from anywhere."""
        folder = self._project.folder.absolute()
        found = {}
        for name, view in self._project.views.items():
            scheme, _, rest = str(view["to"]).partition(":")
            found[name] = f"{scheme}:{rest if scheme == 'redis' else folder / rest}"
        return found

    def write(self) -> Order:
        """A customer with an order, its payment and a visit: one transaction of the shop's own database."""
        with self._lock, closing(self._open()) as db, Shop(db, 0).transaction(db.begin_alone):
            return _written(db)

    def in_log(self, log: Log, order: Order) -> Record | None:
        """The change that the capture wrote, looked for from the end."""
        found = page(log, TOPIC, back=True, limit=1, keep=_of(order), bounds=_BACK).records
        return found[0] if found else None

    def in_view(self, name: str, order: Order) -> Row | None:
        """The row in which the view shows the order; None: not yet."""
        rows = stores.attempted(partial(stores.rows, self.views[name], name))
        return next((row for row in rows or () if _SHOWS[name](row, order)), None)

    def broker(self) -> record.Entry | None:
        """As the supervisor sees it."""
        _, entries = record.read(self._project.folder / record.FOLDER)
        return next((each for each in entries if each.name == BROKER), None)

    def kill_broker(self) -> int:
        """kill -9; the supervisor finds out by itself. The process that was killed."""
        entry = self.broker()
        if entry is None or entry.pid is None or entry.state != "running":
            raise TourOver("the broker is not running just now", hint="wait until it is back")
        os.kill(entry.pid, signal.SIGKILL)
        return entry.pid

    def _open(self) -> Database:
        if self._database == "sqlite":
            return SQLite(self._project.folder / "shop.db")
        return PostgreSQL(f"postgresql://{os.environ[DATABASE_VARIABLE]}")


def mark(folder: Path, database: str) -> None:
    """Say that this project is the demo's."""
    (folder / MARK).write_text(json.dumps({"database": database}), encoding="utf-8")


def tour_of(project: Project | None) -> Tour | None:
    """None for every project but the demo's."""
    if project is None or project.bootstrap is not None:
        return None
    try:
        database = json.loads((project.folder / MARK).read_text(encoding="utf-8"))["database"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Tour(project, database) if database in ("sqlite", "postgresql") else None


def _written(db: Database) -> Order:
    if db.rows(f"SELECT 1 FROM visits WHERE customer_id = {BELL}"):
        raise TourOver("the shop has closed: the demo compares its views", hint="run it again")
    at = time.time_ns() // 1_000_000
    customer, number, payment, visit = (
        db.rows(f"SELECT coalesce(max(id), {FIRST}) + 1 FROM {table} WHERE id >= {FIRST}")[0][0]
        for table in ("customers", "orders", "payments", "visits")
    )
    name, city = f"visitor {customer - FIRST}", CITIES[customer % len(CITIES)]
    db.execute("INSERT INTO customers VALUES (?, ?, ?)", (customer, name, city))
    db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", (number, customer, ITEM, CENTS))
    db.execute("INSERT INTO payments VALUES (?, ?, ?, ?)", (payment, number, CENTS, at))
    db.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", (visit, customer, "order", at))
    minute = f"at / {MINUTE_MS} = {at // MINUTE_MS}"
    count = db.rows(f"SELECT count(*) FROM payments WHERE {minute}")[0][0]
    return Order(number, name, city, at, count)


def _of(order: Order) -> Callable[[Record], bool]:
    digits = str(order.number).encode()

    def is_meant(found: Record) -> bool:
        if found.value is None or digits not in found.value:
            return False
        after = json.loads(found.value).get("after") or {}
        return after.get("id") == order.number

    return is_meant


def _has_it(row: Row, order: Order) -> bool:
    return str(row["id"]) == str(order.number)


def _counts_it(row: Row, order: Order) -> bool:
    """Payments of a minute only ever become more."""
    minute, payments = (int(str(row[name])) for name in ("minute", "payments"))
    return minute == order.at // MINUTE_MS * MINUTE_MS and payments >= order.payments


def _is_its_session(row: Row, order: Order) -> bool:
    """A visitor of a tour comes once."""
    customer, started = (int(str(row[name])) for name in ("customer_id", "started"))
    return customer > FIRST and started == order.at


_SHOWS: Mapping[str, Callable[[Row, Order], bool]] = {
    "order_list": _has_it,
    "order_search": _has_it,
    "revenue_per_minute": _counts_it,
    "sessions": _is_its_session,
}
