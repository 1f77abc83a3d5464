"""SIGTERM under load: what is in flight is answered, and the next start has nothing to repair."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
from pathlib import Path

from headwater.log.config import LogConfig
from headwater.log.files import Files
from headwater.log.recovery import Report
from headwater.log.store import LogStore
from headwater.testing.clock import ManualClock

from .clients import NumberedProducer, create_topic, read_all, until
from .process import BrokerProcess
from .test_kill import check_order

PARTITIONS = 3


def reports(data: Path, copy: Path) -> dict[tuple[str, int], Report]:
    """What a start on this folder would have to do; tried on a copy, for a start leaves traces."""
    shutil.copytree(data, copy)
    store = LogStore(Files(), copy, ManualClock().now_ms)
    store.open(1)
    assert store.clean, "no sign of a clean stop"
    for name in sorted(path.name for path in copy.iterdir() if path.is_dir()):
        topic, _, number = name.rpartition("-")
        store.open_log(topic, int(number), LogConfig())
    found = dict(store.reports)
    for log in store.logs.values():
        log.abandon()
    store.unlock()
    return found


def test_sigterm_under_load_leaves_nothing_to_recover(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "numbers", PARTITIONS)
    config = {"enable.idempotence": True}
    producers = [NumberedProducer(broker.bootstrap, "numbers", f"p{n}", **config) for n in "ab"]
    for producer in producers:
        producer.start()
    until(lambda: all(len(p.acknowledged) > 1000 for p in producers), "acknowledgements")
    broker.stop()
    found = reports(broker.data, tmp_path / "copy")
    assert len([key for key in found if key[0] == "numbers"]) == PARTITIONS
    assert {report.scanned_bytes for report in found.values()} == {0}, found
    assert {report.cut_bytes for report in found.values()} == {0}, found
    broker.start()
    for producer in producers:
        producer.end()
    stored = read_all(broker.bootstrap, "numbers", PARTITIONS)
    check_order(stored)
    assert len(stored) == sum(producer.sent for producer in producers)


def test_sigterm_answers_what_is_in_flight(broker: BrokerProcess) -> None:
    """With a client that never tries again, what is stored and what is acknowledged must agree."""
    create_topic(broker.bootstrap, "numbers", 1)
    config = {"retries": 0, "max.in.flight": 5}
    producers = [NumberedProducer(broker.bootstrap, "numbers", f"p{n}", **config) for n in "abc"]
    for producer in producers:
        producer.start()
    until(lambda: all(len(p.acknowledged) > 500 for p in producers), "acknowledgements")
    broker.terminate()
    assert broker.wait() == 0
    for producer in producers:
        producer.end(drop_unsent=True)
    broker.start()
    stored = read_all(broker.bootstrap, "numbers", 1)
    acknowledged = {record for producer in producers for record in producer.acknowledged}
    assert sorted(acknowledged - set(stored))[:3] == [], "acknowledged, but not there"
    assert sorted(set(stored) - acknowledged)[:3] == [], "stored, but never answered"


def test_a_client_that_goes_on_sending_sees_every_answer_and_an_end_without_a_reset(
    broker: BrokerProcess,
) -> None:
    """A reset may overtake the answers: records that are stored would never be acknowledged."""
    host, port = broker.bootstrap.split(":")
    request = struct.pack(">ihhih", 18, 18, 0, 1, 8) + b"stranger"  # ApiVersions
    with socket.create_connection((host, int(port)), timeout=60) as client:
        ended = threading.Event()
        resets: list[OSError] = []
        sent = 0

        def send() -> None:
            nonlocal sent
            try:
                while not ended.is_set():
                    client.sendall(request)
                    sent += 1
            except OSError as error:
                resets.append(error)

        def answered() -> bytes:
            with client.makefile("rb") as answers:
                return answers.read()

        sender = threading.Thread(target=send)
        sender.start()
        until(lambda: bool(client.recv(1, socket.MSG_PEEK)), "an answer")
        broker.terminate()
        try:
            whole = answered()  # raises where the connection is reset
        finally:
            ended.set()
            sender.join(60)
    assert broker.wait() == 0
    assert resets == []
    count = 0
    while whole:
        size = int.from_bytes(whole[:4], "big")
        assert len(whole) >= 4 + size, "an answer was cut off"
        whole, count = whole[4 + size :], count + 1
    assert count
