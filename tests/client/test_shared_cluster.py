"""Threads that share a client share its connections: none is opened that nobody closes."""

from __future__ import annotations

import threading

import pytest

from headwater.client.cluster import Cluster
from headwater.client.connection import Connection

SETTINGS = {"bootstrap.servers": "127.0.0.1:1"}


class Slow(Cluster):
    """Opens when it is told to."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.opened: list[Connection] = []
        self.is_opening, self.may_open = threading.Event(), threading.Event()

    def open(self, address: tuple[str, int]) -> Connection:
        self.is_opening.set()
        assert self.may_open.wait(60)
        made = Connection.__new__(Connection)
        self.opened.append(made)
        return made


@pytest.mark.parametrize("node_id", [None, 1])
def test_two_threads_that_want_a_connection_get_the_same_one(node_id: int | None) -> None:
    cluster = Slow()
    cluster.locate(1, ("127.0.0.1", 1))
    got: list[Connection] = []

    def ask() -> None:
        got.append(cluster.anyone() if node_id is None else cluster.node(node_id))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for each in threads:
        each.start()
    assert cluster.is_opening.wait(60)
    threads[1].join(0.2)  # time to open another, where it would
    cluster.may_open.set()
    for each in threads:
        each.join()
    assert len(cluster.opened) == 1 and got == cluster.opened * 2
