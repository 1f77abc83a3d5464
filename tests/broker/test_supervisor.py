"""Nothing in the broker fails unseen, or for good."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.broker import supervisor as module
from headwater.broker.health import Health
from headwater.broker.supervisor import Supervisor, wait_s
from headwater.testing.clock import ManualClock


def made() -> Supervisor:
    clock = ManualClock()
    return Supervisor(Health(clock.now_ms), clock)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)


@pytest.mark.parametrize("error", [OSError("no"), KeyError("x"), AssertionError(), TypeError("t")])
def test_a_task_that_fails_is_logged_counted_shown_and_started_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        supervisor, runs = made(), 0

        async def work() -> None:
            nonlocal runs
            runs += 1
            if runs < 4:
                raise error
            await asyncio.Event().wait()

        task = supervisor.run("cleaner", work)
        await until(lambda: runs == 4)
        shown = supervisor.health.subjects()["task/cleaner"]
        assert (shown["runs"], shown["failures"], shown["doing"]) == (4, 3, "running")
        assert type(error).__name__ in shown["last_failure"]
        await supervisor.end(task)
        assert supervisor.health.tasks["cleaner"].doing == "ended"

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    logged = [record for record in caplog.records if "cleaner failed" in record.message]
    assert logged and logged[0].exc_info is not None, "the traceback is missing"


def test_the_same_failure_again_and_again_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor = made()
    for _ in range(100):
        supervisor.failed("idle connections", OSError("no"))
    assert len(caplog.records) == 1
    assert supervisor.health.tasks["idle connections"].failures == 100
    supervisor.failed("idle connections", OSError("another"))
    assert len(caplog.records) == 2


def test_the_wait_grows_and_has_a_bound() -> None:
    waits = [wait_s(failures) for failures in range(1, 100)]
    assert waits == sorted(waits) and waits[-1] == module.LONGEST_WAIT_S


def test_work_that_is_done_once_and_fails_is_seen_though_nobody_awaits_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> Supervisor:
        supervisor = made()

        async def work() -> None:
            raise ValueError("lost")

        supervisor.spawn("transactions", work())
        await until(lambda: "transactions" in supervisor.health.tasks)
        return supervisor

    supervisor = asyncio.run(scenario())
    assert supervisor.health.tasks["transactions"].last_failure == "ValueError: lost"
    assert not any("never retrieved" in record.message for record in caplog.records)


def test_a_part_of_a_duty_that_fails_keeps_the_others_from_nothing() -> None:
    supervisor, done = made(), []

    def turn(bad: str) -> None:
        with supervisor.duty("retention"):
            for partition in ("a", "b", "c"):
                with supervisor.duty("retention", partition):
                    if partition == bad:
                        raise KeyError("x")
                    done.append(partition)

    turn("a")
    assert done == ["b", "c"]
    assert supervisor.health.tasks["retention"].is_failing
    assert supervisor.health.tasks["retention"].last_failure == "a: KeyError: 'x'"
    turn("nobody")
    assert not supervisor.health.tasks["retention"].is_failing
    assert supervisor.health.tasks["retention"].failures == 1


def test_a_stop_ends_everything() -> None:
    async def scenario() -> None:
        supervisor = made()
        tasks = [supervisor.run("a", _for_ever), supervisor.spawn("b", _for_ever())]
        await asyncio.sleep(0)
        await supervisor.stop()
        assert all(task.done() for task in tasks)

    asyncio.run(scenario())


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_a_callback_that_fails_keeps_none_behind_it_from_being_called() -> None:
    async def scenario() -> None:
        supervisor = made()
        called: list[int] = []

        def callback(number: int) -> None:
            called.append(number)
            if number == 1:
                raise KeyError("of one")

        for number in range(3):
            supervisor.call("waiters", callback, number)
        supervisor.soon("waiters", callback, 1)
        supervisor.later(0.001, "waiters", callback, 1)
        supervisor.spawn("work", asyncio.sleep(0), lambda _: callback(1))
        await until(lambda: len(called) == 6)
        assert supervisor.health.tasks["waiters"].failures == 3
        assert supervisor.health.tasks["work"].failures == 1

    asyncio.run(scenario())


UNSUPERVISED = re.compile(
    r"\b(create_task|ensure_future|TaskGroup|call_soon|call_later|call_at|call_soon_threadsafe)\("
)
WITHOUT_LOOP = {
    # Called by threads: what is called is an Event, and a function that isolates what it calls.
    ("watchdog.py", "watched.loop.call_soon_threadsafe(self._answered.set)"),
    ("disk.py", "self._loop.call_soon_threadsafe(self._deliver, deque(results))"),
    # Of the web services too, which have no supervisor. An error is the connection's own, or is told and
    # tried again (tests/security/test_acceptor.py); all else the loop tells the supervisor (`stray`).
    ("acceptor.py", "self._timer = self._loop.call_later(seconds, self._listen)"),
    ("acceptor.py", "task = self._loop.create_task(self._attach(sock, make, left))"),
    ("turns.py", "asyncio.get_running_loop().call_soon(self._turn)"),
    ("turns.py", "self._loop.call_soon(self._next)"),
    (
        "handshakes.py",
        "timer = loop.call_later(HANDSHAKE_SECONDS, self._drop, session, reason)",
    ),
    ("tls_session.py", "asyncio.get_running_loop().call_soon(self.resume)"),
}


def unsupervised(source: Path) -> list[tuple[str, str]]:
    """Places that start something behind the supervisor's back."""
    return [
        (path.name, line.strip())
        for path in sorted(source.rglob("*.py"))
        if path.name != "supervisor.py"
        for line in path.read_text().splitlines()
        if UNSUPERVISED.search(line)
    ]


def test_nothing_in_the_broker_is_started_behind_the_supervisors_back() -> None:
    assert set(unsupervised(Path(module.__file__).parent)) == WITHOUT_LOOP


def test_what_is_started_behind_the_supervisors_back_is_found(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("task = asyncio.ensure_future(work())\n")
    assert unsupervised(tmp_path) == [("some.py", "task = asyncio.ensure_future(work())")]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_duty_for_what_was_deleted_meanwhile_has_not_failed(is_gone: bool) -> None:
    supervisor = made()
    with supervisor.duty("cleaner", "orders-0", lambda: is_gone):
        raise FileNotFoundError("orders-0")
    assert supervisor.health.task("cleaner").failures == (0 if is_gone else 1)
