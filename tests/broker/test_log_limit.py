"""What strangers make a broker log is bounded; nothing else of the log is lost."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from pathlib import Path

from headwater.log_limit import ERRORS, MOST, SAME_ERRORS, LogLimit
from tests.compat.cluster import headwater_process
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, connected


class Kept(logging.Handler):
    def __init__(self, limit: LogLimit) -> None:
        super().__init__()
        self.said: list[str] = []
        self.addFilter(limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def test_of_one_sentence_so_many_pass_in_a_while_and_the_rest_is_counted() -> None:
    now = [0.0]
    handler = Kept(LogLimit(3, 10, lambda: now[0]))
    logger = logging.Logger("headwater.http")
    logger.addHandler(handler)
    for host in range(10):
        logger.warning("closing the connection of %s", host)
        if host < 2:
            logger.warning("another sentence of %s: %d", "each", host)
    now[0] = 10.0
    logger.warning("closing the connection of %s", "later")
    logger.warning("closing the connection of %s", "last")
    assert handler.said == [
        "closing the connection of 0",
        "another sentence of each: 0",
        "closing the connection of 1",
        "another sentence of each: 1",
        "closing the connection of 2",
        "closing the connection of later (7 more like it before)",
        "closing the connection of last",
    ]


def test_each_error_is_told_and_a_sentence_that_does_not_fit_its_words_harms_nobody() -> None:
    handler = Kept(LogLimit(3, 10, lambda: 0.0))
    logger = logging.Logger("ours")
    logger.addHandler(handler)
    for number in range(9):
        logger.error("%s-%d is damaged", "orders", number)
    assert handler.said == [f"orders-{number} is damaged" for number in range(9)]
    assert LogLimit(0).filter(logger.makeRecord("x", logging.ERROR, "f", 1, "%d", ("no",), None))


def test_the_same_error_again_and_again_and_errors_without_end_are_counted() -> None:
    """As a full disk has them: of each write that is refused, in each partition."""
    now = [0.0]
    handler = Kept(LogLimit(clock=lambda: now[0]))
    logger = logging.Logger("headwater.log")
    logger.addHandler(handler)
    for _ in range(1_000):
        logger.error("%s-%d: writing failed", "orders", 0)
    assert handler.said == ["orders-0: writing failed"] * SAME_ERRORS
    for number in range(2 * ERRORS):
        logger.error("%s-%d: writing failed", "orders", number)
    assert len(handler.said) <= ERRORS
    now[0] = 10.0
    logger.error("%s-%d: writing failed", "orders", 0)
    assert "more like it before" in handler.said[-1]


def test_what_a_library_says_of_addresses_is_one_sentence_and_has_an_end() -> None:
    """Of each address that a browser made up a line of 64 KB was written."""
    handler = Kept(LogLimit(3, 10, lambda: 0.0))
    logger = logging.Logger("nicegui")
    logger.addHandler(handler)
    for number in range(9):
        logger.warning(f"/{number}{'a' * 60_000} not found")
    assert [len(each) for each in handler.said] == [2_001] * 3


def test_sentences_without_end_are_not_remembered() -> None:
    limit = LogLimit(1, 10, lambda: 0.0)
    logger = logging.Logger("strangers")
    logger.addHandler(Kept(limit))
    for number in range(5_000):
        logger.warning(f"made anew {number}")
    assert sum(map(len, limit._passed.values())) <= 1_000


def test_a_flood_of_refused_connections_does_not_fill_the_log(tmp_path: Path) -> None:
    settings = {"max.connections.per.ip": "1"}
    with headwater_process(tmp_path / "data", **settings) as (bootstrap, _), ExitStack() as stack:
        until(lambda: holds_the_one(stack, bootstrap), "the one connection that is allowed")
        host, _, port = bootstrap.rpartition(":")
        for _ in range(5 * MOST):
            with socket.create_connection((host, int(port)), 60) as refused:
                assert refused.recv(1) == b""
        lines = (tmp_path / "data.log").read_text().count("max.connections.per.ip are open")
        assert MOST <= lines <= 4 * MOST


def holds_the_one(stack: ExitStack, bootstrap: str) -> bool:
    try:
        return bool(stack.enter_context(connected(bootstrap)).versions)
    except (OSError, ConnectionClosed):
        return False  # the one before it has just gone


def test_what_a_stranger_says_is_one_line_of_text():
    """A receiver of webhooks wrote lines into the log, and colours, by what it answered with."""
    logger, limit = logging.getLogger("x"), LogLimit()
    said = "500: no\r\nERROR headwater: all is lost\x1b[2J\u2028\x9b"
    record = logger.makeRecord("x", logging.WARNING, "f", 1, "gave up: %s\tü", (said,), None)
    assert limit.filter(record)
    found = record.getMessage()
    assert found == r"gave up: 500: no\r\nERROR headwater: all is lost\x1b[2J\u2028\x9b" + "\tü"
