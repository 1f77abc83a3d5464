"""Read your own writes: a view that has it, one that has not, one that never will."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from headwater.client.cluster import Cluster
from headwater.client.position import NotAPosition, Position
from headwater.errors import HeadwaterError
from headwater.views.asgi import ReadYourWrites
from headwater.views.operate import progress, verification_log
from headwater.views.operate.wait import NotYet, Unrelated, View, after, asked_position, wait
from headwater.views.targets.contract import Unavailable
from tests.views.operate.conftest import Moved


def at(text: str) -> Position:
    return Position.parse(text)


def test_a_view_that_has_it_answers_at_once(moved: Moved):
    moved.write("orders:0=17,orders:1=3", [(1, "a", 1.0)])
    view = View(moved.name, moved.to)
    assert view.wait("orders:0=17", timeout=0) == at("orders:0=17,orders:1=3")
    assert view.wait("orders:0=5,orders:1=3", timeout=0) == view.position()


def test_a_view_that_has_not_says_how_far_it_is(moved: Moved):
    moved.write("orders:0=12", [])
    with pytest.raises(
        NotYet, match=r"has not reached orders:0=17 .* it is 5 records behind"
    ) as said:
        View(moved.name, moved.to).wait("orders:0=17", timeout=0)
    assert said.value.reached == at("orders:0=12")


def test_a_view_that_has_not_begun_says_so(tmp_path: Path):
    with pytest.raises(NotYet, match="has not begun"):
        View("nothing", f"sqlite:{tmp_path / 'none.db'}").wait("orders:0=1", timeout=0)


def test_a_position_of_other_topics_is_not_waited_for(moved: Moved):
    moved.write("orders:0=12", [])
    with pytest.raises(Unrelated, match="does not read payments") as said:
        View(moved.name, moved.to).wait("payments:0=1", timeout=60)
    assert said.value.hint == "it reads orders"


def test_waiting_ends_when_the_batch_comes(moved: Moved):
    moved.write("orders:0=1", [])
    waiting = threading.Event()
    view = View(moved.name, moved.to)

    def position() -> Position | None:
        found = view.position()
        waiting.set()
        return found

    def come() -> None:
        waiting.wait(60)
        moved.write("orders:0=2", [(1, "a", 1.0)])

    thread = threading.Thread(target=come)
    thread.start()
    assert wait(position, at("orders:0=2"), 30) == at("orders:0=2")
    thread.join()


def test_a_store_that_does_not_answer_is_asked_again():
    answers: list[Any] = [Unavailable("it is down"), at("t:0=5")]

    def position() -> Position:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait(position, at("t:0=5"), 10, sleep=lambda _: None) == at("t:0=5")


def test_waiting_follows_a_switch_to_another_version(moved: Moved, tmp_path: Path):
    moved.write("orders:0=5", [])
    newer = Moved(tmp_path / "views.db", version=2)
    newer.write("orders:0=9", [])
    view = View(moved.name, moved.to)
    assert view.position() == at("orders:0=5")
    newer.target.switch()
    assert view.position() == at("orders:0=9")


def test_a_delivered_record_has_a_position(bootstrap: str):
    delivered: list[Message] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in "abc":
        producer.produce(
            "delivered", value, partition=0, on_delivery=lambda _, m: delivered.append(m)
        )
    assert producer.flush(60) == 0
    assert after(delivered[0]) == at("delivered:0=1")
    assert after(delivered) == at("delivered:0=3")


def test_a_record_that_was_not_delivered_has_none():
    lost: list[Message] = []
    producer = Producer(
        {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 10}
    )
    producer.produce("lost", "a", on_delivery=lambda _, m: lost.append(m))
    assert producer.flush(30) == 0
    with pytest.raises(HeadwaterError, match="was not delivered"):
        after(lost)


def test_a_request_names_a_position_in_a_header_or_a_parameter():
    assert asked_position({"headwater-position": "t:0=5"}) == at("t:0=5")
    assert asked_position({}, {"position": "t:0=5"}) == at("t:0=5")
    assert asked_position({"Accept": "*/*"}) is None
    with pytest.raises(NotAPosition):
        asked_position({"Headwater-Position": "five"})


# ---- over HTTP -----------------------------------------------------------------------------------


async def app(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"rows"})


def request(view: View, *headers: tuple[bytes, bytes]) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads the body")

    scope = {"type": "http", "headers": list(headers), "query_string": b""}
    asyncio.run(ReadYourWrites(app, view, timeout=0.05)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_the_middleware_waits_and_tells_the_position(moved: Moved):
    moved.write("orders:0=12", [])
    view = View(moved.name, moved.to)
    status, headers, body = request(view, (b"headwater-position", b"orders:0=12"))
    assert (status, body) == (200, b"rows")
    assert headers[b"headwater-position"] == b"orders:0=12"
    assert request(view)[0] == 200

    status, headers, body = request(view, (b"headwater-position", b"orders:0=13"))
    assert status == 503
    assert headers[b"headwater-position"] == b"orders:0=12"
    assert "1 records behind" in json.loads(body)["error"]
    assert request(view, (b"headwater-position", b"x"))[0] == 400
    assert request(view, (b"headwater-position", b"payments:0=1"))[0] == 400


# ---- how far views are ---------------------------------------------------------------------------


def produced(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(60) == 0


def test_lag_is_counted_in_records_and_in_seconds(moved: Moved, bootstrap: str, cluster: Cluster):
    produced(bootstrap, "listed", 10)
    moved.write("listed:0=7", [])
    view = View(moved.name, moved.to)
    listed = progress.in_target(view, cluster)
    assert listed.version == 1
    assert listed.lag is not None
    assert listed.lag.records == 3
    assert 0 <= listed.lag.seconds < 100
    moved.write("listed:0=10", [])
    assert progress.in_target(view, cluster).lag == progress.Lag(0, 0.0)


def test_what_was_verified_is_kept_in_the_log(moved: Moved, bootstrap: str, cluster: Cluster):
    produced(bootstrap, "checked", 10)
    view = View("checked_view", moved.to)
    checked = Moved(moved.target.path, "checked_view")
    checked.write("checked:0=7", [])
    client = {"bootstrap.servers": bootstrap}
    assert progress.in_target(view, cluster).verified is None
    verification_log.note(client, view.name, 1, view.to, at("checked:0=7"), 5)
    verification_log.note(client, view.name, 1, view.to, at("checked:0=6"), 4)
    known = progress.in_target(view, cluster).verified
    assert known is not None
    assert (known.position, known.rows) == (at("checked:0=6"), 4)
    # A store that is behind what was verified is another one than was looked at.
    verification_log.note(client, view.name, 1, view.to, at("checked:0=9"), 9)
    assert progress.in_target(view, cluster).verified is None
    # Nor is anything known of a version that is begun anew.
    verification_log.note(client, view.name, 1, view.to, at("checked:0=7"), 5)
    assert progress.in_target(view, cluster).verified is not None
    verification_log.forget(client, view.name, 1)
    assert progress.in_target(view, cluster).verified is None


def test_a_store_that_cannot_be_asked_is_trouble_and_no_failure(cluster: Cluster):
    listed = progress.in_target(View("v", "nowhere:at-all"), cluster)
    assert listed.trouble == "'nowhere:at-all' names no target"
    assert listed.as_json()["position"] is None
