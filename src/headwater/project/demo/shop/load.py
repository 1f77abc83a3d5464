"""The load generator: what happens in the shop, from dice, one small transaction after the other.

Called by `job`. Customers come, look at a few pages and go; some order; orders change and are cancelled,
customers move. Times never go back, as those of one shop do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from headwater.project.demo.shop.database import CITIES, ITEMS, PAGES, Shop
from headwater.project.demo.shop.verification import BELL

CUSTOMERS = 500
PRESENT = 20
"""So many customers are in the shop at a time."""
HOUR_MS = 3_600_000
TRICKLE_PER_S = 10


class Load:
    """One shop's traffic."""

    def __init__(self, shop: Shop, dice: Random, clock: Callable[[], float] = time.time) -> None:
        self._shop = shop
        self._dice = dice
        self._clock = clock
        self._at = 0
        self._open: list[tuple[int, int]] = []
        """Orders that can still change, with what was paid for them."""
        self._present: list[int] = []

    def fill(self, orders: int) -> None:
        """What was there before anybody thought of a log: an hour of it."""
        begin = int(self._clock() * 1000) - HOUR_MS
        with self._shop.transaction():
            for _ in range(CUSTOMERS):
                self._shop.register(self._dice.choice(CITIES))
            for number in range(orders):
                self._at = begin + number * HOUR_MS // orders
                self._order(self._dice.randint(1, CUSTOMERS), self._at)

    def step(self) -> tuple[int | None, int | None]:
        """One transaction; the order that is new, and the one that is gone, if any."""
        draw = self._dice.random()
        with self._shop.transaction():
            if draw < 0.5:
                self._shop.visit(self._visitor(), self._dice.choice(PAGES), self._now())
            elif draw < 0.75:
                return self._order(self._visitor(), self._now()), None
            elif draw < 0.88:
                self._change()
            elif draw < 0.94:
                return None, self._cancel()
            else:
                self._shop.move(self._dice.randint(1, CUSTOMERS), self._dice.choice(CITIES))
        return None, None

    def trickle(self, tell: Callable[[int, str], None]) -> int:
        """Some traffic until Ctrl-C, so that visitors come and sessions end; how much it was."""
        begin, written = time.monotonic(), 0
        try:
            while True:
                self.step()
                written += 1
                tell(written, "Ctrl-C ends the demo")
                time.sleep(max(0.0, begin + written / TRICKLE_PER_S - time.monotonic()))
        except KeyboardInterrupt:
            return written

    def close(self) -> int:
        """The shop closes: a bell rings an hour later, and a last order comes in, which is told."""
        with self._shop.transaction():
            order = self._order(self._visitor(), self._now())
            self._shop.visit(BELL, "closing", self._now() + HOUR_MS)
        return order

    def _order(self, customer: int, at: int) -> int:
        cents = self._dice.randint(500, 20_000)
        number = self._shop.order(customer, self._dice.choice(ITEMS), cents)
        self._shop.pay(number, cents, at)
        self._shop.visit(customer, "order", at)
        self._open.append((number, cents))
        return number

    def _change(self) -> None:
        place = self._dice.randrange(len(self._open))
        number, cents = self._open[place]
        self._shop.reprice(number, 100)
        self._shop.pay(number, 100, self._now())
        self._open[place] = (number, cents + 100)

    def _cancel(self) -> int:
        number, cents = self._open.pop(self._dice.randrange(len(self._open)))
        self._shop.cancel(number)
        self._shop.pay(number, -cents, self._now())
        return number

    def _visitor(self) -> int:
        """One of those who are present; now and then somebody leaves and another one comes."""
        if len(self._present) < PRESENT or self._dice.random() < 0.2:
            if len(self._present) >= PRESENT:
                self._present.pop(self._dice.randrange(PRESENT))
            self._present.append(self._dice.randint(1, CUSTOMERS))
        return self._dice.choice(self._present)

    def _now(self) -> int:
        self._at = max(self._at, int(self._clock() * 1000))
        return self._at
