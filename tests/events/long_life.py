"""Weeks in the life of a bank, on a clock that is turned by hand, beside a model that knows what must be.

Real broker, real clients, real files; only time is simulated. Transactional ids and tombstones expire,
compaction runs, the broker restarts, owners are replaced and go on as zombies that never look at the clock,
programs are deployed with mended upcasters, subjects are forgotten, and sagas meet events that they cannot
handle. What happens, and in which order, comes from the seed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headwater import testing
from headwater.broker.broker import Broker
from headwater.events import Accepted, Aggregate, BlockingApplication, clock, upcaster
from headwater.events.errors import EventsError
from headwater.events.history import Reader
from headwater.events.keys import Keys
from headwater.events.personal import Personal
from headwater.events.saga import Saga
from headwater.project.ports import free_port
from headwater.testing import ManualClock
from tests.events import bank
from tests.events.bank import Deposit, Transfer, Withdraw
from tests.events.test_application import wait_until
from tests.events.test_keys import compact_away

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SETTINGS: dict[str, object] = {
    "log.cleaner.enable": True,
    "log.cleaner.backoff.ms": 20,
    "log.message.timestamp.type": "LogAppendTime",
    "transaction.remove.expired.transaction.cleanup.interval.ms": 20,
    "connections.max.idle.ms": -1,  # the worst case: a zombie's connection outlives it
    "log.retention.check.interval.ms": 1000,
}
POISON = 13
"""A transfer of so much is more than the saga can take."""
IDS = ["alice", "bob", "carol"]
WINDOW = 8


def bank_of(factor: int) -> Aggregate[bank.Account]:
    """The bank as it is deployed; what an old deposit was worth is said by an upcaster, rightly or not."""

    @upcaster("Deposited", 1)
    def worth(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "amount": data["amount"] * factor}

    return bank.accounts("accounts", upcasters=[worth] if factor else [])


class DrivenClock(ManualClock):
    """Tells the broker when it was turned: its deadlines wait in real seconds otherwise."""

    broker: Broker | None = None

    def advance(self, ms: int) -> int:
        now = super().advance(ms)
        task = self.broker.cleaner._task if self.broker is not None else None
        if self.broker is not None and task is not None and not task.done():
            task.get_loop().call_soon_threadsafe(self.broker.groups._core.deadlines.fire)
        return now


class World:
    """A broker, an owner, zombies, keys and a saga; and the model."""

    def __init__(self, seed: int, data: Path, patch: Callable[[Any, str, Any], None]) -> None:
        self.chance = random.Random(seed)
        self.clock = DrivenClock(time.time_ns() // 1_000_000)
        patch(clock, "seconds", self.clock.monotonic)
        patch(clock, "now_ms", self.clock.now_ms)
        self.data, self.listen = data, f"127.0.0.1:{free_port()}"
        self.factor = 0
        self.balances = dict.fromkeys(IDS, 0)
        self.decided: list[tuple[str, Any, str, int, bool]] = []
        """Whom, what, the command's id, when, and whether it was accepted."""
        self.sealed: list[tuple[str, str, Personal]] = []
        self.forgotten: set[str] = set()
        self.zombies: list[BlockingApplication[bank.Account]] = []
        self.poisoned = 0
        self._stack, self._broker_stack = ExitStack(), ExitStack()
        self.broker: Broker
        self._start_broker()
        self.owner = self._open()
        self.idle, self.busy = (Keys(self.listen, refresh_s=0) for _ in range(2))

    def close(self) -> None:
        for each in [*self.zombies, self.owner]:
            each.close()
        self.idle.close()
        self.busy.close()
        self._stack.close()
        self._broker_stack.close()

    def _start_broker(self) -> None:
        self.broker = self.clock.broker = self._broker_stack.enter_context(
            testing.broker(self.data, SETTINGS, listen=self.listen, clock=self.clock)
        )

    def _open(self) -> BlockingApplication[bank.Account]:
        options: dict[str, Any] = {"partitions": 1, "snapshot_every": 5, "window": WINDOW}
        return BlockingApplication(
            bank_of(self.factor), self.listen, owns="all", timeout_s=60, **options
        )

    # ---- what may happen ------------------------------------------------------------------------

    def command(self) -> None:
        """Something new, by the owner."""
        id, amount = self.chance.choice(IDS), self.chance.randint(1, 50)
        what: Any = Deposit(amount) if self.chance.random() < 0.6 else Withdraw(amount)
        self._ask(self.owner, id, what, self._new_id())

    def _new_id(self) -> str:
        return f'{len(self.decided)} "{self.chance.getrandbits(20)}\\'

    def rush(self) -> None:
        """More commands than an owner remembers, and time to forget them."""
        for _ in range(WINDOW + 4):
            self._ask(self.owner, "bob", Deposit(1), self._new_id())
        self.clock.advance(60_000)

    def repeat(self) -> None:
        """A command from the past, thrice; refusals are kept for a week."""
        now = self.clock.now_ms()
        known = [each for each in self.decided if each[4] or now - each[3] < 5 * DAY_MS]
        if not known:
            return
        id, what, command_id, at, was_accepted = self.chance.choice(known)
        for _ in range(3):
            answer = self._sent(self.owner, id, what, command_id, at)
            assert isinstance(answer, Accepted) == was_accepted, (command_id, answer)
            assert answer.repeated, (command_id, answer)
            self.rush()

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([HOUR_MS, 12 * HOUR_MS, 2 * DAY_MS, 8 * DAY_MS]))

    def replace_owner(self) -> None:
        """Another process takes over; the old one sleeps, and will not know for how long."""
        if self.chance.random() < 0.6:
            self.clock.advance(8 * DAY_MS)
            wait_until(lambda: not self.broker.transactions.transactions)
        old, self.owner = self.owner, self._open()
        for each in old.application._owners.values():
            each.desk._lease_s = float("inf")
        self.zombies.append(old)
        self.command()
        self.wake()

    def wake(self) -> None:
        """A zombie decides, or thinks so. What it did not answer, the owner is asked again."""
        if self.zombies:
            zombie = self.chance.choice(self.zombies)
            id = self.chance.choice(IDS)
            what = Withdraw(max(self.balances[id], 1))
            self._ask(zombie, id, what, self._new_id())

    def restart(self) -> None:
        self.clock.broker = None
        self._broker_stack.close()
        self._start_broker()

    def deploy(self) -> None:
        """The same program with another upcaster: old deposits are worth more than was thought."""
        self.factor = max(self.factor, 1) + 1
        self.owner.close()
        for each in self.zombies:
            each.close()
        self.zombies.clear()
        self.owner = self._open()
        with Reader(bank_of(self.factor), self.listen) as reader:
            for id in IDS:
                self.balances[id] = reader.state(id, snapshots=False).balance
                found = self.owner.state(id).balance
                assert found == self.balances[id], (
                    f"the owner has {found}, the log {self.balances[id]}"
                )
        self.rush()  # snapshots of this fold

    def personal(self) -> None:
        """Texts are sealed by whoever, and read by both; a subject is forgotten, and time passes."""
        subject = f"subject {len(self.sealed)}"
        for keys in (self.idle, self.busy):
            self.sealed.append(
                (subject, f"text of {subject}", keys.seal(subject, f"text of {subject}"))
            )
        if self.chance.random() < 0.5:
            self.busy.forget(subject)
            self.forgotten.add(subject)
            compact_away(subject, self.busy, self.listen, self.clock)
            again = self.idle.seal(subject, "new")
            assert self.busy.reveal(again) == "new", "sealed with a key that nobody has"
        for who, text, sealed in self.sealed:
            wanted = None if who in self.forgotten else text
            assert self.idle.reveal(sealed) == self.busy.reveal(sealed) == wanted, who

    def transfer(self) -> None:
        """Money on its way; some of it is more than the saga can take."""
        self._ask(self.owner, "alice", Deposit(60), self._new_id())
        for amount in (10, POISON, 20):
            name = f"alice:{len(self.decided)}"
            self._ask(self.owner, "alice", Transfer(name, "bob", amount), self._new_id())
            self.balances["bob"] += amount if amount != POISON else 0
            self.poisoned += amount == POISON
        react = bank.transfers(self.owner.application.aggregate)

        def careless(event: Any) -> Any:
            if isinstance(event.data, bank.TransferStarted) and event.data.amount == POISON:
                raise ValueError("thirteen")
            return react(event)

        app = self.owner.application
        saga = Saga("transfers", app.aggregate, careless, [app], self.listen)
        self.owner._wait(saga.__aenter__())
        try:
            wait_until(lambda: self._have_arrived(saga), 20)
            saga.check()
        finally:
            self.owner._wait(saga.__aexit__())

    def _have_arrived(self, saga: Saga) -> bool:
        self.clock.advance(20)  # groups have deadlines, too
        assert saga._thread.is_alive(), "the saga has stopped"
        # A group that nobody was in for a week has no offsets: then it begins at the first event again.
        return saga.buried >= 1 and len(self.owner.state("alice").on_the_way) == self.poisoned

    # ---- the model ------------------------------------------------------------------------------

    def _ask(
        self, app: BlockingApplication[bank.Account], id: str, what: Any, command_id: str
    ) -> None:
        at = self.clock.now_ms()
        answer = self._sent(app, id, what, command_id, at)
        costs = 0 if isinstance(what, Deposit) else what.amount
        good = costs <= self.balances[id]
        assert isinstance(answer, Accepted) == good, (id, what, self.balances[id], answer)
        if good:
            self.balances[id] += what.amount if isinstance(what, Deposit) else -costs
        self.decided.append((id, what, command_id, at, good))

    def _sent(
        self, app: BlockingApplication[bank.Account], id: str, what: Any, command_id: str, at: int
    ) -> Any:
        """The answer of this process; where it has none, of the owner, or of the next one."""
        for each in (app, self.owner):
            try:
                return each.send(id, what, command_id=command_id, sent_at_ms=at)
            except EventsError:
                continue  # fenced: whether it was decided, the next one knows
        self.zombies.append(self.owner)
        self.owner = self._open()
        return self.owner.send(id, what, command_id=command_id, sent_at_ms=at)

    def check(self) -> None:
        """The log says what the model says: every event the next one, every command once."""
        aggregate = bank_of(self.factor)
        numbers: dict[str, int] = {}
        commands: set[tuple[str, str]] = set()
        states: dict[str, bank.Account] = {}
        with Reader(aggregate, self.listen) as reader:
            for _, events in reader.replay():
                for each in events:
                    numbers[each.id] = numbers.get(each.id, 0) + 1
                    assert each.n == numbers[each.id], (each.id, each.n)
                    assert (each.id, each.command) not in commands, each.command
                    commands.add((each.id, each.command))
                    before = states.get(each.id, bank.Account())
                    states[each.id] = aggregate.apply(before, each.data)
            for id in IDS:
                found = states.get(id, bank.Account())
                assert found.balance == self.balances[id] == self.owner.state(id).balance
                assert reader.state(id) == found
        for id, _, command_id, _, good in self.decided:
            assert ((id, command_id) in commands) == good, command_id


STEPS = {
    "command": 8,
    "rush": 2,
    "repeat": 3,
    "pass_time": 4,
    "replace_owner": 3,
    "wake": 3,
    "restart": 1,
    "deploy": 1,
    "personal": 1,
    "transfer": 1,
}


def live(
    seed: int,
    data: Path,
    patch: Callable[[Any, str, Any], None],
    steps: dict[str, int] | None = None,
    count: int = 40,
) -> None:
    """So many steps, each kind as often as its weight says; AssertionError where the model differs."""
    world = World(seed, data, patch)
    done: list[str] = []
    kinds, weights = zip(*(steps or STEPS).items(), strict=True)
    try:
        for _ in range(count):
            (kind,) = world.chance.choices(kinds, weights)
            done.append(kind)
            getattr(world, kind)()
        world.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after {' '.join(done)}: {error}") from error
    finally:
        world.close()
