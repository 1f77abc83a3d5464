"""`headwater verify` and `headwater rebuild` beside a project that runs and is written to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

from bench.broker.meter import cpu_s
from bench.freshness.goals import Figures
from bench.freshness.measure import until_there
from bench.freshness.scenarios import SCENARIOS
from headwater.project.demo.shop.database import Shop, SQLite
from headwater.project.demo.shop.load import CUSTOMERS, Load
from headwater.project.demo.shop.project import Up

TURNS = 3
VIEW = "order_list"


def operate(folder: Path, *, quick: bool) -> Figures:
    """The median of several turns; the first of them finds a Spark that has done nothing like it."""
    scenario = SCENARIOS["demo"]
    bootstrap = scenario.write(folder)
    with closing(SQLite(folder / "shop.db")) as database:
        shop = Shop(database, CUSTOMERS)
        shop.make()
        # Each order is a record of its own; with the customers, 33,000 that a rebuild reads.
        Load(shop, Random(7)).fill(3_000 if quick else 32_500)
        with Up(folder) as up:
            until_there(scenario, folder, up, bootstrap, database)
            verify = [_timed(up, folder, "verify", VIEW) for _ in range(TURNS)]
            rebuild = [_timed(up, folder, "rebuild", VIEW) for _ in range(TURNS)]
    found: Figures = {"verify_first_s": verify[0][0], "rebuild_first_s": rebuild[0][0]}
    for name, turns in (("verify", verify), ("rebuild", rebuild)):
        seconds, spent = sorted(turns[1:])[0]
        found |= {f"{name}_s": seconds, f"{name}_cpu_s": spent}
    return found


def _timed(up: Up, folder: Path, *words: str) -> tuple[float, float]:
    """Seconds of the wall, and of CPU of the project and of the command together."""
    spent, children, began = cpu_s(up.pid), os.times(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "headwater", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise RuntimeError(f"headwater {words[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
    after = os.times()
    own = after.children_user + after.children_system
    own -= children.children_user + children.children_system
    return seconds, cpu_s(up.pid) - spent + own
