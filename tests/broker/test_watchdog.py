"""The watchdog: a turn of the event loop that takes too long is named, and nothing else is."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headwater.broker.health import Health
from headwater.broker.watchdog import Watchdog, counted
from headwater.project.broker_process import BrokerProcess
from headwater.testing.clock import ManualClock
from tests.broker.serving import serving
from tests.compat.waiting import until

LOOPS = ["asyncio", "uvloop"]
TRIES = 5
"""Where the machine is so busy that the watchdog's thread stands still, such time does not count."""


def run(kind: str, limit_ms: int, *turns_s: float) -> Health:
    """What is known after turns of that length."""

    async def scenario() -> Health:
        health = Health(ManualClock().now_ms)
        watchdog = Watchdog(health, lambda: limit_ms)
        watchdog.start()
        for turn in turns_s:
            known = health.loop.slow_turns
            for _ in range(TRIES if limit_ms else 1):
                if health.loop.slow_turns == known:
                    await asyncio.sleep(0.05)
                    a_slow_handler(turn)
                    await asyncio.sleep(0.05)
        watchdog.stop()
        return health

    if kind == "asyncio":
        return asyncio.run(scenario())
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario())


def test_a_stop_that_comes_while_it_is_about_to_ask_ends_it() -> None:
    """The loop waits for its thread then, and answers nothing any more."""

    async def scenario() -> None:
        is_about_to_ask = threading.Event()

        def limit_ms() -> int:
            is_about_to_ask.set()
            assert watchdog._stopped.wait(60)
            return 100

        watchdog = Watchdog(Health(ManualClock().now_ms), limit_ms)
        watchdog.start()
        assert is_about_to_ask.wait(60)
        watchdog.stop()

    asyncio.run(scenario())


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    return [line for line in said if "event loop was busy" in line]


def a_slow_handler(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_long_turn_is_named_with_its_stack_and_counted(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    health = run(kind, 40, 0.4)
    assert health.loop.slow_turns >= 1
    assert health.loop.longest_turn_ms >= 40
    assert "a_slow_handler" in (health.loop.last_stack or "")
    assert "a_slow_handler" in lines(caplog)[-1]


def test_a_turn_that_keeps_the_interpreter_to_itself_is_named_too() -> None:
    """Python code that never waits: the watchdog's thread gets its turns only now and then."""

    async def scenario() -> Health:
        health = Health(ManualClock().now_ms)
        watchdog = Watchdog(health, lambda: 40)
        watchdog.start()
        await asyncio.sleep(0.05)
        until_s = time.monotonic() + 0.4
        while time.monotonic() < until_s:
            sum(range(1000))
        await asyncio.sleep(0.1)
        watchdog.stop()
        return health

    assert asyncio.run(scenario()).loop.slow_turns >= 1


def test_many_long_turns_are_all_counted_and_logged_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = run("asyncio", 20, *[0.1] * 8)
    assert health.loop.slow_turns >= 4
    assert 1 <= len(lines(caplog)) < health.loop.slow_turns


def test_a_much_longer_turn_is_logged_though_another_has_just_been(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = run("asyncio", 20, 0.05, 1.0)
    assert health.loop.slow_turns >= 2
    longest = max(int(line.split("busy for ")[1].split()[0]) for line in lines(caplog))
    assert longest == health.loop.longest_turn_ms


def test_it_can_be_turned_off() -> None:
    assert run("asyncio", 0, 0.3).loop.slow_turns == 0


def test_time_in_which_the_whole_process_stood_still_does_not_count() -> None:
    step = 0.025
    assert counted(3600.0, 0.001, step) == step, "stopped, or asleep"
    assert counted(0.4, 0.39, step) == 0.4, "busy with something that does not let go"
    assert counted(0.026, 0.0, step) == 0.026, "in time"


def test_a_broker_that_was_stopped_and_goes_on_raises_no_alarm(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from headwater.broker.health import Health\n"
        "from headwater.broker.watchdog import Watchdog\n"
        "async def main():\n"
        "    health = Health(lambda: 0)\n"
        "    watchdog = Watchdog(health, lambda: 400)\n"
        "    watchdog.start()\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)\n"
        "    await asyncio.sleep(0.5)\n"
        "    watchdog.stop()\n"
        "    print(health.loop.slow_turns, flush=True)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2)  # it is this time that must not count
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n"


def test_a_broker_watches_its_own_loop(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), serving(data) as broker:
        broker.call(lambda: a_slow_handler(0.5))
        until(lambda: broker.broker.health.loop.slow_turns > 0, "the long turn to be seen")


def test_a_broker_process_has_a_watchdog_and_stops_in_order(data: Path) -> None:
    with BrokerProcess(data) as broker:
        broker.start()
        assert broker.bootstrap
