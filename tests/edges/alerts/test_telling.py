"""Alerts with a real log and real receivers: a mail server, a web server, a command, a topic; restarts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from confluent_kafka import Consumer, TopicPartition

from headwater.client import ranges
from headwater.client.log import Log
from headwater.client.records import Record
from headwater.edges.alerts.config import Command
from headwater.edges.alerts.notices import Notice
from headwater.edges.alerts.senders import Runner
from headwater.edges.webhooks.delivery import Delivery
from headwater.project.file import Project
from headwater.project.ports import free_port
from tests.edges.running import edges, process, until
from tests.edges.webhooks.looking import end_of, has_member
from tests.edges.webhooks.receiver import SECRET, receiver

Topics = Callable[..., str]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


class Mailbox:
    def __init__(self) -> None:
        self.got: list[Message] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.got.append(message_from_bytes(envelope.content, policy=default))
        return "250 taken"


@pytest.fixture
def mail() -> Iterator[tuple[str, Mailbox]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), ready_timeout=60)
    controller.start()
    yield f"smtp://127.0.0.1:{controller.port}", box
    controller.stop()


def put(log: Log, topic: str, values: list[Any], key: str | None = None, **words: Any) -> None:
    producer = log.new_producer()
    for value in values:
        producer.produce(topic, json.dumps(value), key, **words)
    assert producer.flush(60) == 0


def told(log: Log, topic: str) -> list[dict[str, Any]]:
    found = ranges.read(log, topic, log.ranges(topic))
    return [json.loads(record.value or b"") for some in found for record in some]


def states(log: Log, topic: str) -> list[str]:
    return [each["state"] for each in told(log, topic)]


def commit(log: Log, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**log.settings, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def waits_for(log: Log, alert: str) -> Callable[[], bool]:
    """Whether the alert has a position, and so hears of what comes."""
    return lambda: has_member(log, f"headwater.alert.{alert}")


def test_a_group_that_falls_behind_is_told_of_once_and_again_when_it_is_back(
    log: Log, topic: Topics
):
    source, to = topic(), topic()
    put(log, source, list(range(20)))
    commit(log, source, source, 0)
    rule = {"on": f"group:{source}", "when": "lag > 10", "to": f"topic:{to}", "every_s": 0.1}
    document = {"alerts": {source: rule}}
    with edges(log.bootstrap, document):
        until(lambda: states(log, to) == ["firing"], "the alert")
    with edges(log.bootstrap, document) as running:
        url = f"{running.url}/status"
        name = f"alerts.{source}"
        until(
            lambda: httpx.get(url, timeout=30).json()["services"][name].get("value") == 20, "a look"
        )
        commit(log, source, source, 15)
        until(lambda: states(log, to) == ["firing", "recovered"], "the recovery")
    first, second = told(log, to)
    assert first["summary"] == f"the lag of {source} is above 10: 20"
    assert second["summary"] == f"the lag of {source} is no longer above 10: 5"
    assert (second["value"], second["since_ms"]) == (5, first["at_ms"])


def test_a_record_that_matches_is_told_by_a_signed_webhook(log: Log, topic: Topics):
    source = topic()
    put(log, source, [{"status": "failed"}])  # before the alert was there
    with receiver() as got:
        rule = {
            "on": f"topic:{source}",
            "when": "matches",
            "where": ["status=failed"],
            "to": got.url,
            "secret": "${HOOK_SECRET}",
            "allow_private": True,
            "at_most_every_s": 0.01,
        }
        with edges(log.bootstrap, {"alerts": {source: rule}}):
            until(waits_for(log, source), "the alert's start")
            put(log, source, [{"status": "ok"}, {"status": "failed", "n": 2}], key="k")
            until(lambda: got.taken, "the notice")
    (request,) = got.taken
    notice = json.loads(request.body)
    assert (notice["alert"], notice["state"]) == (source, "matched")
    assert notice["record"]["offset"] == 2
    assert json.loads(notice["record"]["value"]) == {"status": "failed", "n": 2}


def test_a_value_beyond_its_limit_is_told_by_mail_per_key(
    log: Log, topic: Topics, mail: tuple[str, Mailbox]
):
    source, (server, box) = topic(), mail
    rule = {
        "on": f"topic:{source}",
        "when": "celsius > 30",
        "to": "mailto:ops@shop.example",
        "from": "headwater@shop.example",
        "smtp": server,
    }
    with edges(log.bootstrap, {"alerts": {source: rule}}):
        until(waits_for(log, source), "the alert's start")
        put(log, source, [{"celsius": each} for each in (20, 31, 35, 29)], key="kitchen ü")
        until(lambda: len(box.got) == 2, "the mails")
    first, second = box.got
    assert first["Subject"] == f"[headwater] {source} firing: celsius of kitchen ü is above 30: 31"
    assert "recovered: celsius of kitchen ü is no longer above 30: 29" in second["Subject"]
    assert (first["To"], first["From"]) == ("ops@shop.example", "headwater@shop.example")
    assert first["Message-ID"].startswith("<headwater.alerts-0-")


def test_a_count_over_the_last_minutes_is_told_to_a_command(
    log: Log, topic: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_PASSWORD", "hush")
    source = topic(partitions=2)
    now = int(time.time() * 1000)
    put(log, source, [{"n": n} for n in range(5)], timestamp=now - 3_600_000)  # too long ago
    put(log, source, [{"n": n} for n in range(5)], timestamp=now - 1000)
    script = "import os, sys; assert 'PATH' in os.environ and 'SHOP_PASSWORD' not in os.environ; "
    script += "open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
    (tmp_path / "note.py").write_text(script)
    noted = tmp_path / "noted"
    rule = {
        "on": f"topic:{source}",
        "when": "count > 7 in 30m",
        "to": f"command:{sys.executable} {tmp_path / 'note.py'} {noted}",
    }
    with edges(log.bootstrap, {"alerts": {source: rule}}) as running:
        url, name = f"{running.url}/status", f"alerts.{source}"
        until(
            lambda: httpx.get(url, timeout=30).json()["services"][name].get("value") == 5,
            "the count",
        )
        put(log, source, [{"n": n} for n in range(4)])
        until(lambda: noted.exists() and noted.read_text().endswith("\n"), "the command")
    notice = json.loads(noted.read_text())
    assert (notice["state"], notice["value"] in (8, 9)) == ("firing", True)  # the last may follow


def test_a_command_that_fails_is_tried_again_and_then_buried(log: Log, topic: Topics):
    source = topic()
    commit(log, source, source, 0)
    put(log, source, [1, 2])
    words = f"{sys.executable} -c 'import sys; sys.exit(\"no such pager\")'"
    rule = {
        "on": f"group:{source}",
        "when": "lag > 1",
        "to": f"command:{words}",
        "attempts": 2,
        "first_wait_s": 0.01,
    }
    dead = f"alerts.{source}.delivery.dead-letters"
    with edges(log.bootstrap, {"alerts": {source: rule}}):
        until(lambda: end_of(log, dead) == 1, "the dead letter")
    found = next(record for some in ranges.read(log, dead, log.ranges(dead)) for record in some)
    headers = dict(found.headers)
    assert headers["__dlq.errors.message"] == b"exit code 1: no such pager"
    assert headers["__dlq.errors.delivery.count"] == b"2"


def test_what_others_write_among_the_notices_is_set_aside_and_holds_up_nobody(
    log: Log, topic: Topics, tmp_path: Path
):
    source, noted = topic(), tmp_path / "noted"
    commit(log, source, source, 0)
    (tmp_path / "note.py").write_text("import sys; open(sys.argv[1], 'a').write('x')")
    rule = {
        "on": f"group:{source}",
        "when": "lag > 1",
        "to": f"command:{sys.executable} {tmp_path / 'note.py'} {noted}",
        "every_s": 0.1,
    }
    dead = f"alerts.{source}.delivery.dead-letters"
    with edges(log.bootstrap, {"alerts": {source: rule}}) as running:
        until(waits_for(log, f"{source}.delivery"), "the alert")
        for name in ("headwater.alerts", f"alerts.{source}.delivery.again"):
            said = httpx.post(f"{running.url}/topics/{name}", json={"alert": source})
            assert said.status_code == 403
        put(log, "headwater.alerts", [{"alert": source}], source)  # as who may write in the log can
        until(lambda: end_of(log, dead) == 1, "the dead letter")
        put(log, source, [1, 2])
        until(noted.exists, "the command")
        state = httpx.get(f"{running.url}/status", timeout=30).json()["services"]
        assert "failures" not in state[f"alerts.{source}.delivery"]


async def test_a_command_that_reads_nothing_has_run_all_the_same():
    runner = Runner(Command(("/bin/true",), 60))
    notice = Notice("late", "firing", "…", 1, subject="x" * 1_000_000)
    record = Record("headwater.alerts", 0, 7, 0, None, notice.draft().value)
    for number in range(5):
        outcome = await runner.send(Delivery(f"a\0b-{number}", record))
        assert outcome.is_delivered, outcome.reason


def test_silence_is_told_and_so_is_its_end(log: Log, topic: Topics):
    source, to = topic(partitions=2), topic()
    put(log, source, [1], timestamp=int(time.time() * 1000) - 3_600_000)
    rule = {"on": f"topic:{source}", "when": "silence > 10m", "to": f"topic:{to}", "every_s": 0.1}
    with edges(log.bootstrap, {"alerts": {source: rule}}):
        until(lambda: states(log, to) == ["firing"], "the alert")
        put(log, source, [2])
        until(lambda: states(log, to) == ["firing", "recovered"], "the recovery")


def test_a_view_that_is_behind_is_told_of(log: Log, topic: Topics, tmp_path: Path):
    source, to = topic(), topic()
    put(log, source, list(range(8)))
    commit(log, "headwater-totals", source, 1)
    project = Project(tmp_path / "headwater.toml", views={"totals": {"to": f"topic:{to}-rows"}})
    late = {"on": "view:totals", "when": "lag > 5", "to": f"topic:{to}", "every_s": 0.1}
    lost = {**late, "on": "view:nobody"}
    with edges(log.bootstrap, {"alerts": {to: late, f"{to}-lost": lost}}, project) as running:
        until(lambda: states(log, to) == ["firing"], "the alert")

        def failure() -> str:
            found = httpx.get(f"{running.url}/status", timeout=30).json()["services"]
            return str(found[f"alerts.{to}-lost"].get("last_failure"))

        until(lambda: "there is no view 'nobody'" in failure(), "the failure of the other")
    assert told(log, to)[0]["value"] == 7


def test_a_kill_neither_repeats_nor_forgets(log: Log, topic: Topics, tmp_path: Path):
    source, to = topic(), topic()
    document = f"""
[edges.alerts.{source}]
on = "topic:{source}"
when = "total > 10"
to = "topic:{to}"
"""
    with process(tmp_path, document, log.bootstrap) as running:
        until(waits_for(log, source), "the alert's start")
        put(log, source, [{"total": 11}], key="a")
        until(lambda: states(log, to) == ["firing"], "the alert")
        running.kill()
        put(log, source, [{"total": 12}, {"total": 1}, {"total": 13}], key="a")
        running.start()
        expected = ["firing", "recovered", "firing"]
        until(lambda: states(log, to)[-3:] == expected, "what happened meanwhile")
    # The first may have come twice: killed before its delivery was noted.
    distinct = list(dict.fromkeys(each["record"]["offset"] for each in told(log, to)))
    assert distinct == [0, 2, 3]
