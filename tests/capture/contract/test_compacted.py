"""The contract with a log whose topics are compacted: tables that are emptied there, and read anew."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from headwater.broker.broker import Broker
from headwater.capture.config import CaptureConfig
from headwater.capture.removal import forget
from headwater.capture.runner import Runner
from tests.capture.contract import subject
from tests.capture.contract.subject import Subject, needs
from tests.capture.contract.test_log import folded
from tests.capture.core.reading import read
from tests.capture.postgres.running import eventually

COMPACTED = {"cleanup.policy": "compact"}


@contextlib.contextmanager
def running(config: CaptureConfig) -> Iterator[list[BaseException]]:
    """The capture; why it ended by itself, should it."""
    runner, failures = Runner(config), list[BaseException]()

    def go() -> None:
        try:
            runner.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        eventually("it streams", lambda: failures or runner.status.phase == "streaming")
        yield failures
    finally:
        runner.stop()
        thread.join(60)
    assert not failures, failures


def is_as_selected(shop: Subject, log: Broker, failures: list[BaseException]) -> None:
    topic = f"{shop.name}.t"
    eventually(
        "readers have the table's rows, by keys and tombstones alone",
        lambda: failures or folded(shop, read(log.bootstrap, topic)) == shop.select("t"),
    )
    assert not failures, failures
    assert None not in [record.key for record in read(log.bootstrap, topic)]


@needs(subject.TRUNCATE)
def test_a_truncated_table_is_empty_in_a_compacted_topic_and_the_capture_goes_on(
    shop: Subject, log: Broker
) -> None:
    shop.create("t")
    shop.insert("t", 1, 300)
    with running(shop.config(bootstrap=log.bootstrap, topic_config=COMPACTED)) as failures:
        shop.set("t", 2, -2)
        shop.insert("t", 301, 310)
        shop.truncate("t")
        shop.insert("t", 5, 9)
        shop.set("t", 6, -6)
        is_as_selected(shop, log, failures)
        shop.truncate("t")
        shop.insert("t", 1, 1)
        is_as_selected(shop, log, failures)


@needs(subject.KEYS_REDEFINED)
def test_a_table_that_gets_another_key_has_each_row_once_in_a_compacted_topic(
    shop: Subject, log: Broker
) -> None:
    shop.create("t")
    shop.insert("t", 1, 50)
    shop.execute("UPDATE t SET n = n + 100")
    with running(shop.config(bootstrap=log.bootstrap, topic_config=COMPACTED)) as failures:
        shop.redefine("t", "n")
        shop.set("t", 2, 1_000)
        is_as_selected(shop, log, failures)
        shop.redefine("t", "id")
        shop.delete("t", 3)
        is_as_selected(shop, log, failures)


def test_a_capture_that_begins_anew_leaves_no_row_in_a_compacted_topic_that_went_meanwhile(
    shop: Subject, log: Broker
) -> None:
    shop.create("t")
    shop.insert("t", 1, 50)
    config = shop.config(bootstrap=log.bootstrap, topic_config=COMPACTED)
    with running(config) as failures:
        is_as_selected(shop, log, failures)
    shop.delete("t", 7)
    forget(config)
    with running(config) as failures:
        shop.insert("t", 51, 51)
        is_as_selected(shop, log, failures)
