"""The `eventsourcing` package: SQLite (WAL, each commit synced) and PostgreSQL (fsync on), cache on.

The cache hands out the aggregate itself, not a copy, and does not look for events of other processes:
its fastest configuration, right as long as one process writes and each account has one client.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.events.measure import Commands, Events
from bench.events.ours import run_threads

CACHED = {
    "AGGREGATE_CACHE_MAXSIZE": "100000",
    "AGGREGATE_CACHE_FASTFORWARD": "n",
    "DEEPCOPY_FROM_AGGREGATE_CACHE": "n",
}
FILL = 500


class Account(Aggregate):
    def __init__(self) -> None:
        self.balance = 0

    @event("Deposited")
    def deposit(self, amount: int) -> None:
        self.balance += amount


class Bank(Application[UUID]):
    is_snapshotting_enabled = True


class Peer:
    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self._environment = dict(environment)

    def close(self) -> None:
        pass

    def commands(self, clients: int, each: int) -> Commands:
        app = Bank(env={**self._environment, **CACHED})
        ids = []
        for _ in range(clients * 4):
            account = Account()
            app.save(account)
            ids.append(account.id)
        times: list[float] = []

        def client(number: int) -> None:
            for n in range(each):
                began = time.perf_counter()
                account: Account = app.repository.get(ids[number * 4 + n % 4])
                account.deposit(10)
                app.save(account)
                times.append(time.perf_counter() - began)

        seconds = run_threads(client, clients)
        app.close()
        return Commands(len(times), seconds, times)

    def history(self, events: int, accounts: int) -> UUID:
        """The id of the first of so many accounts, with so many events in all."""
        app = Bank(env=self._environment)
        made = [Account() for _ in range(accounts)]
        for n in range(events // FILL):
            account = made[n % accounts]
            for amount in range(FILL):
                account.deposit(amount)
            app.save(account)
        app.close()
        return made[0].id

    def snapshot(self, id: UUID) -> None:
        app = Bank(env=self._environment)
        app.take_snapshot(id)
        app.close()

    def opening(self, id: UUID) -> Events:
        """In an application that has just been started."""
        app = Bank(env=self._environment)
        app.recorder.max_notification_id()  # connected
        began = time.perf_counter()
        account: Account = app.repository.get(id)
        seconds = time.perf_counter() - began
        app.close()
        return Events(account.version, seconds)

    def replay(self, limit: int) -> Events:
        """As its projections do it: notifications in pages, each turned into a domain event."""
        app = Bank(env=self._environment)
        balances: dict[UUID, int] = {}
        count, start = 0, None
        began = time.perf_counter()
        while count < limit:
            page = app.recorder.select_notifications(
                start=start, limit=1000, inclusive_of_start=False
            )
            if not page:
                break
            for notification in page:
                found = app.mapper.to_domain_event(notification)
                if isinstance(found, Account.Deposited):  # type: ignore[attr-defined]
                    id = found.originator_id
                    balances[id] = balances.get(id, 0) + found.amount
            count += len(page)
            start = page[-1].id
        seconds = time.perf_counter() - began
        app.close()
        return Events(count, seconds)
