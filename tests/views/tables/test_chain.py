"""Two drivers on one shared state, each stopped between any two calls of the storage: no Spark."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest

from headwater.views.tables.shared.chain import DATA, MANIFESTS, Chain
from headwater.views.tables.shared.manifest import Manifest, Piece, Pieces, nothing
from headwater.views.targets.contract import Fenced
from tests.conftest import SOAK

FOLD_EVERY = 3
LIVES = 3


class Lost(Exception):
    """A file that a driver reads is not there any more, or its target is further: it must start again."""


class Storage:
    """A folder in memory; `pause` is called before each call of the storage."""

    address = "memory"

    def __init__(self, files: dict[str, str], pause: Callable[[], None], exclusive: bool) -> None:
        self.files, self._pause, self._exclusive = files, pause, exclusive

    def names(self, name: str) -> list[str]:
        self._pause()
        below = (
            each.removeprefix(f"{name}/") for each in self.files if each.startswith(f"{name}/")
        )
        return sorted({each.partition("/")[0] for each in below})

    def read(self, name: str) -> str | None:
        self._pause()
        return self.files.get(name)

    def write_new(self, name: str, text: str) -> None:
        self._pause()
        if name in self.files:
            raise Fenced(name)
        if not self._exclusive:
            self._pause()  # looked, then renamed over whatever is there by now
        self.files[name] = text

    def remove(self, name: str) -> None:
        for each in [each for each in self.files if each == name or each.startswith(f"{name}/")]:
            self._pause()
            self.files.pop(each, None)


class Target:
    """Knows batches that it has, and refuses a writer that was replaced."""

    def __init__(self) -> None:
        self.batch, self.epoch = -1, 0

    def claim(self) -> int:
        self.epoch += 1
        return self.epoch

    def tell(self, epoch: int, batch: int) -> None:
        if epoch < self.epoch:
            raise Fenced("replaced")
        assert batch <= self.batch + 1, f"the target has never been told of {self.batch + 1}"
        if batch < self.batch:
            raise Lost("the target is further")
        self.batch = batch


class Driver:
    """As `upkeep` does it: a file of changes and one of rows for each batch; a base now and then."""

    def __init__(self, name: str, storage: Storage, target: Target, until: int) -> None:
        self.name, self.storage, self.target, self.until = name, storage, target, until
        self.attempts = 0

    def run(self) -> None:
        for _ in range(LIVES):
            try:
                self._live()
                return
            except (Fenced, Lost):
                continue

    def _live(self) -> None:
        chain, epoch = Chain(self.storage), None
        state = chain.newest() or nothing("q", 1)
        again = state.batch >= 0
        while again or state.batch < self.until:
            if not again:
                attempt, found = self._computed(state)
                chain.add(found, state)
                before, state = state, found
                chain.clean(before, found, attempt)
            again = False
            self.storage.names("")  # stopped before the target is told
            epoch = self.target.claim() if epoch is None else epoch
            self.storage.names("")
            self.target.tell(epoch, state.batch)

    def _computed(self, state: Manifest) -> tuple[str, Manifest]:
        batch, files = state.batch + 1, self.storage.files
        self.attempts += 1
        attempt = f"{batch}-{self.name}{self.attempts}"
        self.storage.names("")
        if {f"{DATA}/{name}" for name in state.needed} - set(files):
            raise Lost("a file")
        pieces = state.tables[0]
        files[f"{DATA}/{attempt}/changes"] = ""
        if batch % FOLD_EVERY == 0:
            files[f"{DATA}/{attempt}/t0-all"] = " ".join(map(str, changing(batch)))
            pieces = Pieces(Piece(f"{attempt}/t0-all", 1))
        if batch in changing(batch + 1):
            files[f"{DATA}/{attempt}/t0"] = str(batch)
            pieces = pieces.with_delta(Piece(f"{attempt}/t0", 1))
        return attempt, Manifest("q", batch, (pieces,), Pieces())


def changing(until: int) -> list[int]:
    """The batches that change something; of the others, nothing is needed."""
    return [batch for batch in range(until) if batch % 4 != 2]


class Stepped:
    """A driver in a thread of its own, which goes on by one call of the storage at a time."""

    def __init__(
        self, name: str, files: dict[str, str], target: Target, until: int, exclusive: bool
    ) -> None:
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.is_done = False
        self.error: BaseException | None = None
        self._driver = Driver(name, Storage(files, self._pause, exclusive), target, until)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self) -> None:
        self._go.release()
        self._stopped.acquire()
        if self.is_done:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def _pause(self) -> None:
        self._stopped.release()
        self._go.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._driver.run()
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._stopped.release()


def newest(files: dict[str, str]) -> Manifest | None:
    found = [int(name.rpartition("/")[2]) for name in files if name.startswith(MANIFESTS)]
    return Manifest.from_json(files[f"{MANIFESTS}/{max(found)}"]) if found else None


def check(files: dict[str, str], highest: int) -> int:
    """The newest manifest has all of its files, they are the whole state, and it never goes back."""
    found = newest(files)
    if found is None:
        assert highest < 0
        return highest
    missing = {name for name in found.needed if f"{DATA}/{name}" not in files}
    assert not missing, f"batch {found.batch} needs {missing}"
    rows = [int(n) for name in found.needed for n in files[f"{DATA}/{name}"].split()]
    assert sorted(rows) == changing(found.batch + 1)
    assert found.batch >= highest
    return found.batch


def played(turns: Iterable[int], exclusive: bool, until: tuple[int, int] = (6, 6)) -> int:
    """Let two drivers go on as `turns` says, look after every step; how many there were of the first."""
    files: dict[str, str] = {}
    target = Target()
    drivers = [Stepped(name, files, target, until[n], exclusive) for n, name in enumerate("ab")]
    highest, steps, order = -1, 0, iter(turns)
    while any(not each.is_done for each in drivers):
        turn = next(order, 0)
        chosen = drivers[turn] if not drivers[turn].is_done else drivers[1 - turn]
        steps += chosen is drivers[0]
        chosen.step()
        highest = check(files, highest)
    # Whoever comes then goes on, and two batches later nothing is left that nobody needs.
    last = Driver("c", Storage(files, lambda: None, True), target, max(highest, 0) + 3)
    last._live()
    assert target.batch == check(files, highest) == last.until
    manifests = [Manifest.from_json(files[f"{MANIFESTS}/{last.until - n}"]) for n in (0, 1)]
    kept = {f"{DATA}/{name}" for each in manifests for name in each.needed}
    assert kept | {f"{MANIFESTS}/{each.batch}" for each in manifests} == set(files)
    return steps


def bursts(seed: int) -> Iterator[int]:
    """Each driver goes on for a while; sometimes for one call, sometimes for batches."""
    chance = random.Random(seed)
    while True:
        turn = chance.randrange(2)
        for _ in range(int(1.1 ** chance.randrange(50))):
            yield turn


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_driver_that_stops_at_any_call_while_another_goes_on_destroys_nothing(exclusive: bool):
    whole = played([], exclusive, (1, 6))
    for stopped in range(whole):
        for ahead in (30, 45, 60, 75, 1000):
            played([*[0] * stopped, *[1] * ahead], exclusive, (1, 6))


@pytest.mark.parametrize("exclusive", [True, False])
def test_two_drivers_in_any_order_of_their_calls_keep_one_state(exclusive: bool):
    for seed in range(5000 if SOAK else 60):
        try:
            played(bursts(seed), exclusive)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("call", range(5))
def test_a_driver_is_fenced_at_whichever_call_of_adding_another_goes_on(call: int):
    files: dict[str, str] = {}
    target, calls = Target(), iter(range(100))
    plain = Storage(files, lambda: None, True)
    Driver("a", plain, target, 3)._live()
    three = Manifest.from_json(files[f"{MANIFESTS}/3"])
    _, four = Driver("late", plain, target, 4)._computed(three)
    there: dict[str, str] = {}

    def ahead() -> None:
        if next(calls) == call:  # a look, a read, the manifest, a look, a read
            Driver("b", plain, target, 7)._live()
            assert f"{MANIFESTS}/4" not in files, "the number is free again"
            there.update(files)

    with pytest.raises(Fenced, match="another driver"):
        Chain(Storage(files, ahead, True)).add(four, three)
    assert files.items() >= there.items(), "nothing of the other's is touched"
    assert (f"{MANIFESTS}/4" in files) == (call == 2)


def test_a_manifest_that_goes_between_a_look_and_a_read_is_looked_for_again():
    files: dict[str, str] = {}
    target = Target()
    plain = Storage(files, lambda: None, True)
    Driver("a", plain, target, 2)._live()
    calls = iter(range(100))

    def ahead() -> None:
        if next(calls) == 1:  # between the names and the file
            Driver("b", plain, target, 5)._live()

    found = Chain(Storage(files, ahead, True)).newest()
    assert found is not None and found.batch == 5
