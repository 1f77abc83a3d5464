"""The event-sourced examples run as servers, and keep their rules over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater import testing

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with testing.broker() as broker:
        yield broker.bootstrap


@contextmanager
def serving(name: str, bootstrap: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / name / "api.py"), "--port", "0"],
        env={**os.environ, "HEADWATER_BOOTSTRAP": bootstrap},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate(timeout=30)


def asked(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data, {"content-type": "application/json", **named})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def until(condition: Any, deadline_s: float = 90) -> Any:
    pause, end = threading.Event(), time.monotonic() + deadline_s
    while time.monotonic() < end:
        if found := condition():
            return found
        pause.wait(0.05)
    raise AssertionError("it did not happen in time")


def test_the_bank_refuses_an_overdraft_and_tells_its_history(bootstrap: str):
    with serving("accounts", bootstrap) as url:
        alice = f"{url}/accounts/alice"
        assert asked(f"{alice}/deposits", {"amount": 5}) == (
            409,
            {"refused": "there is no such account"},
        )
        assert asked(alice, {"owner": "Alice"})[0] == 200
        first = asked(f"{alice}/deposits", {"amount": 10}, Idempotency_Key="k", X_User="teller")
        again = asked(f"{alice}/deposits", {"amount": 10}, Idempotency_Key="k")
        assert first[0] == 200 and again == (200, {**first[1], "repeated": True})
        no = {"refused": "overdraft: the balance is 10"}
        assert asked(f"{alice}/withdrawals", {"amount": 11}) == (409, no)
        assert asked(f"{alice}/withdrawals", {"amount": "x"})[0] == 400
        assert asked(f"{url}/accounts/bob", {"owner": "Bob"})[0] == 200
        assert asked(f"{alice}/transfers", {"to": "bob", "amount": 4})[0] == 200
        until(lambda: asked(f"{url}/accounts/bob") == (200, {"owner": "Bob", "balance": 4}))
        assert asked(alice) == (200, {"owner": "Alice", "balance": 6})
        assert asked(f"{alice}?as_of=2020-01-01T00:00:00Z")[0] == 404
        asked(f"{alice}/transfers", {"to": "nobody", "amount": 6})
        lines = until(lambda: [x for x in asked(f"{alice}/history")[1] if "Cancelled" in x])
        assert "by saga transfers" in lines[0] and "there is no such account" in lines[0]
        assert asked(alice)[1]["balance"] == 6
        assert "by teller" in asked(f"{alice}/history")[1][1]


def test_two_people_want_one_seat_and_one_gets_it(bootstrap: str):
    with serving("seats", bootstrap) as one, serving("seats", bootstrap) as two:

        def reserve(number: int) -> tuple[int, Any]:
            url = (one, two)[number % 2]
            card = "declined" if number == 99 else "4000"
            return asked(f"{url}/seats/hamlet/A1", {"by": f"person {number}", "card": card})

        assert asked(f"{one}/seats/hamlet/B2", {"by": "poor", "card": "declined"})[0] == 200
        with ThreadPoolExecutor(8) as crowd:
            answers = list(crowd.map(reserve, range(8)))
        won = [number for number, (status, _) in enumerate(answers) if status == 200]
        assert len(won) == 1
        assert {said["refused"] for status, said in answers if status == 409} == {"it is taken"}
        sold = {"status": "sold", "by": f"person {won[0]}"}
        until(lambda: asked(f"{one}/seats/hamlet/A1") == (200, sold))
        assert asked(f"{two}/seats/hamlet/A1") == (200, sold)
        # The card was declined: the seat is free again, and somebody else can have it.
        until(lambda: asked(f"{two}/seats/hamlet/B2")[1]["status"] == "free")
        assert asked(f"{two}/seats/hamlet/B2", {"by": "rich", "card": "4000"})[0] == 200
        until(lambda: asked(f"{one}/seats/hamlet/B2")[1] == {"status": "sold", "by": "rich"})
