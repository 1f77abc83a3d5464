"""Views of one history of accounts, old versions of events included, each by its own query; and what is
forgotten is in none of them.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater import testing
from headwater.cli.app import run as headwater
from headwater.events import Accepted, Aggregate, BlockingApplication
from tests.spark.quick import QUICK_ENVIRONMENT

ACCOUNTS = Path(__file__).parents[2] / "examples" / "accounts"


@dataclass(frozen=True)
class Deposited:
    """As it was years ago: without a currency."""

    amount: int


def filled(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ACCOUNTS))
    import bank

    then = Aggregate(
        "accounts",
        bank.Account(),
        lambda state, command: (
            Deposited(command.amount)
            if isinstance(command, bank.Deposit)
            else bank.decide(state, command)
        ),
        lambda state, event: bank.apply(
            state, bank.Deposited(event.amount) if isinstance(event, Deposited) else event
        ),
        [bank.Open, bank.Deposit],
        [bank.Opened, Deposited],
    )
    options: dict[str, Any] = {"owns": "all", "partitions": 2}
    with BlockingApplication(then, bootstrap, **options) as app:
        app.send("alice", bank.Open("Alice"))
        app.send("alice", bank.Deposit(2_000))
        app.send("bob", bank.Open("Bob"))
    with BlockingApplication(bank.accounts, bootstrap, **options) as app:
        app.send("alice", bank.Deposit(500))
        app.send("alice", bank.Withdraw(1_500), who="stranger")
        app.send("bob", bank.Deposit(7))
        assert isinstance(app.send("bob", bank.Withdraw(5)), Accepted)
        app.send("bob", bank.Withdraw(5))  # refused: it leaves nothing


@pytest.mark.timeout(900)  # Spark starts
def test_account_list_statement_and_fraud_feed_follow_one_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with testing.broker() as broker:
        filled(broker.bootstrap, monkeypatch)
        assert headwater(["forget", "bob", "--yes", "--bootstrap", broker.bootstrap]) == 0
        done = subprocess.run(
            [
                *(sys.executable, "-m", "headwater", "run", "--once", str(ACCOUNTS / "views.py")),
                *("--bootstrap", broker.bootstrap, "--master", "local[2]"),
                *("--checkpoints", str(tmp_path / "checkpoints")),
                *("--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false"),
            ],
            env={
                **os.environ,
                **QUICK_ENVIRONMENT,
                "ACCOUNT_VIEWS": f"sqlite:{tmp_path / 'views.db'}",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    with sqlite3.connect(tmp_path / "views.db") as views:

        def rows(query: str) -> list[Any]:
            return views.execute(query).fetchall()

        assert rows("SELECT id, balance, events FROM account_list ORDER BY id") == [
            ("alice", 1_000, 4),
            ("bob", 2, 3),
        ]
        assert rows(
            "SELECT id, sum(money_in), sum(money_out) FROM monthly_statement GROUP BY id ORDER BY id"
        ) == [("alice", 2_500, 1_500), ("bob", 7, 5)]
        assert rows("SELECT id, owner FROM account_owners") == [("alice", "Alice")]
        assert rows("SELECT id, n, amount, who FROM fraud_feed") == [
            ("alice", 4, 1_500, "stranger")
        ]
    views.close()
