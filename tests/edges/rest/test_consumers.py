"""/consumers/…: records by a consumer group over HTTP; position and commits on the edges' side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from headwater.client import groups
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.edges.config import Limits
from headwater.edges.errors import Overloaded
from headwater.edges.rest import instances
from headwater.edges.rest.answers import RestError
from headwater.edges.rest.instance import Options
from tests.edges.rest.conftest import Clients
from tests.edges.running import edges, until

V2 = {"Content-Type": "application/vnd.kafka.v2+json"}


@contextmanager
def consumer(client: httpx.Client, group: str, topic: str, **more: str) -> Iterator[str]:
    """The path of an instance that reads from the beginning."""
    body = {"format": "json", "auto.offset.reset": "earliest", **more}
    made = client.post(f"/consumers/{group}", json=body, headers=V2)
    assert made.status_code == 200, made.text
    base = made.json()["base_uri"]
    try:
        assert client.post(f"{base}/subscription", json={"topics": [topic]}).status_code == 204
        yield base
    finally:
        client.delete(base)


def read(client: httpx.Client, base: str, count: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []

    def enough() -> bool:
        said = client.get(f"{base}/records", params={"timeout": 2000})
        assert said.status_code == 200, said.text
        found.extend(said.json())
        return len(found) >= count

    until(enough, f"{count} records")
    return found


def put(log: Log, topic: str, *values: bytes) -> None:
    for value in values:
        publish(log, topic, Draft(b"k", value))


def test_what_is_committed_is_not_read_again_and_what_is_not_is(
    client: Clients, log: Log, topic: Callable[..., str]
):
    name, ann = topic(), client("ann")
    put(log, name, b"1", b"2")
    with consumer(ann, f"g-{name}", name) as base:
        assert [each["value"] for each in read(ann, base, 2)] == [1, 2]
        assert ann.get(f"{base}/assignments").json()["partitions"] == [
            {"topic": name, "partition": 0}
        ]
        assert ann.post(f"{base}/offsets").status_code == 200
        assert ann.get(f"{base}/offsets").json()["offsets"][0]["offset"] == 2
        for number, count in ((0, 1), (1, 0)):
            asked = {"partitions": [{"topic": name, "partition": number}]}
            said = ann.request("GET", f"{base}/offsets", json=asked).json()["offsets"]
            assert len(said) == count, "of those that were asked for, what is committed"
        put(log, name, b"3")
        assert [each["value"] for each in read(ann, base, 1)] == [3]
    assert groups.committed(log, [f"g-{name}"]) == {f"g-{name}": {(name, 0): 2}}
    with consumer(ann, f"g-{name}", name) as base:
        assert [each["value"] for each in read(ann, base, 1)] == [3]
        seek = {"offsets": [{"topic": name, "partition": 0, "offset": 0}]}
        assert ann.post(f"{base}/positions", json=seek).status_code == 204
        assert [each["value"] for each in read(ann, base, 3)] == [1, 2, 3]
        commit = {"offsets": [{"topic": name, "partition": 0, "offset": 1}]}
        assert ann.post(f"{base}/offsets", json=commit).status_code == 200
    assert groups.committed(log, [f"g-{name}"]) == {f"g-{name}": {(name, 0): 1}}


def test_one_that_commits_itself_has_committed_what_it_was_handed_before(
    client: Clients, log: Log, topic: Callable[..., str]
):
    name, ann = topic(), client("ann")
    put(log, name, b"1")
    with consumer(ann, f"g-{name}", name, **{"auto.commit.enable": "true"}) as base:
        read(ann, base, 1)
        assert groups.committed(log, [f"g-{name}"]) == {f"g-{name}": {}}
        ann.get(f"{base}/records", params={"timeout": 0})
        assert groups.committed(log, [f"g-{name}"]) == {f"g-{name}": {(name, 0): 1}}


def from_the_beginning(client: httpx.Client, base: str, topic: str) -> None:
    seek = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert client.post(f"{base}/positions", json=seek).status_code == 204


@pytest.mark.parametrize("most", [1, 1500, 50_000])
def test_an_answer_is_bounded_in_bytes_with_all_that_it_has_and_nothing_is_left_out(
    client: Clients, log: Log, topic: Callable[..., str], most: int
):
    name, ann = topic(), client("ann")
    put(log, name, *[b'"%s"' % (b"x" * 400)] * 5)
    for _ in range(5):
        publish(log, name, Draft(None, None, [("h", b"x" * 10_000)]))
    with consumer(ann, f"g-{name}", name) as base:
        read(ann, base, 10)
        from_the_beginning(ann, base, name)
        offsets: list[int] = []
        while len(offsets) < 10:
            said = ann.get(f"{base}/records", params={"timeout": 20_000, "max_bytes": most})
            found = [each["offset"] for each in said.json()]
            assert len(said.content) <= most or len(found) == 1
            offsets += found
        assert offsets == list(range(10))


def test_what_waited_for_a_read_while_the_instance_was_ended_is_told_that_it_has(
    log: Log, topic: Callable[..., str]
):
    async def ended() -> tuple[object, object]:
        its = instances.Instances(log, Limits())
        made = its.add("ann", "ended", None, Options())
        await its.do(made, lambda: made.subscribe([topic_name]))
        reading = asyncio.create_task(its.do(made, lambda: made.read(60, 1)))
        waiting = asyncio.create_task(its.do(made, made.assigned))
        await asyncio.sleep(0)  # both have begun: the second waits for its turn
        await its.remove(made, in_order=False)
        straight = await asyncio.gather(asyncio.to_thread(made.assigned), return_exceptions=True)
        return (await asyncio.gather(reading, waiting, return_exceptions=True))[1], straight[0]

    topic_name = topic()
    for outcome in asyncio.run(ended()):
        assert isinstance(outcome, RestError)
        assert outcome.code == 40403


def test_an_instance_is_its_tokens_own(client: Clients, topic: Callable[..., str]):
    name, ann, bob = topic(), client("ann"), client("bob")
    with consumer(ann, "bob-shared", name) as base:
        for method, path in (
            ("GET", "/records"),
            ("GET", "/offsets"),
            ("POST", "/offsets"),
            ("POST", "/subscription"),
            ("GET", "/assignments"),
            ("DELETE", ""),
        ):
            body = {"topics": [name]} if path == "/subscription" else None
            said = bob.request(method, f"{base}{path}", json=body)
            assert (said.status_code, said.json()["error_code"]) == (404, 40403), path
        assert ann.get(f"{base}/subscription").json() == {"topics": [name]}
    assert ann.get(f"{base}/records").json()["error_code"] == 40403


def test_a_group_and_its_topics_need_their_scopes(client: Clients, topic: Callable[..., str]):
    for name in ("eve", "dan"):  # a star among topics is none among groups
        said = client(name).post("/consumers/bob-group", json={})
        assert (said.status_code, said.json()["error_code"]) == (403, 403)
    ann = client("ann")
    # A commit there, and it delivers nothing of that, or a view counts as further; a member: a sink waits.
    for kind in (".webhook.", ".bridge.", ".alert.", "-sink-", "-replay.", "-"):
        said = ann.post(f"/consumers/headwater{kind}shop", json={})
        assert (said.status_code, said.json()["error_code"]) == (403, 403)
    with consumer(ann, "own", topic()) as base:
        said = ann.post(f"{base}/subscription", json={"topics": ["__consumer_offsets"]})
        assert said.status_code == 404
        said = ann.post(f"{base}/subscription", json={"topic_pattern": "^(a+)+$"})
        assert said.status_code == 422
        said = ann.post(f"{base}/subscription", json={"topics": ["nowhere"]})
        assert said.json()["error_code"] == 40401
        for name in ("nowhere", "no\0where", "n" * 300):
            place = {"topic": name, "partition": 0, "offset": 1}
            said = ann.post(f"{base}/offsets", json={"offsets": [place]})
            assert (said.status_code, said.json()["error_code"]) == (404, 40401)


async def test_a_few_who_take_all_consumers_leave_one_for_each_other(log: Log):
    its = instances.Instances(log, Limits(consumers=4, consumers_per_token=2))

    def add(owner: str) -> None:
        its.add(owner, f"first-{owner}", None, Options())

    try:
        for owner in ("a", "a", "b", "b", "c", "d"):
            add(owner)
        for owner in ("a", "c"):
            with pytest.raises(Overloaded):
                add(owner)
        for owner in ("e", "f"):
            add(owner)
        with pytest.raises(Overloaded):
            add("g")
    finally:
        await its._end()


def test_the_number_of_instances_is_bounded(client: Clients):
    ann, bases = client("ann"), []
    for _ in range(2):
        bases.append(ann.post("/consumers/many", json={}).json()["base_uri"])
    full = ann.post("/consumers/many", json={})
    assert (full.status_code, full.json()["error_code"]) == (429, 429)
    assert int(full.headers["retry-after"]) > 0
    for base in bases:
        assert ann.delete(base).status_code == 204
    twice = [ann.post("/consumers/many", json={"name": "mine"}) for _ in range(2)]
    assert [each.status_code for each in twice] == [200, 409]
    assert twice[1].json()["error_code"] == 40902
    ann.delete(twice[0].json()["base_uri"])


@pytest.mark.parametrize(
    "body",
    [
        {"format": "avro"},
        {"auto.offset.reset": "now"},
        {"auto.commit.enable": "perhaps"},
        {"fetch.min.bytes": "-1"},
        {"name": "a/b"},
        {"name": 7},
    ],
)
def test_an_option_that_is_none_is_told(client: Clients, body: dict[str, object]):
    said = client("ann").post("/consumers/own", json=body)
    assert said.status_code == 422
    assert said.json()["message"]


def test_one_that_nobody_uses_is_closed_and_its_partitions_go_to_others(
    log: Log, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    """And one whose client is only away takes part in the rebalance."""
    monkeypatch.setattr(instances, "AWAY_S", 0.2)
    monkeypatch.setattr(instances, "LOOK_S", 0.05)
    name = topic(2)
    with (
        edges(log.bootstrap, {"limits": {"consumer_idle_seconds": 6}}) as running,
        httpx.Client(base_url=running.url, timeout=60) as client,
        consumer(client, f"g-{name}", name) as first,
    ):
        read(client, first, 0)
        until(lambda: len(_places(client, first)) == 2, "both partitions")
        with consumer(client, f"g-{name}", name) as second:
            # The first is not asked for records meanwhile.
            until(lambda: read(client, second, 0) == [] and _places(client, second), "its share")
            until(lambda: len(_places(client, second)) == 2, "the share of the idle one")
            assert client.get(f"{first}/records").json()["error_code"] == 40403


def _places(client: httpx.Client, base: str) -> list[object]:
    client.get(f"{base}/records", params={"timeout": 0})
    return list(client.get(f"{base}/assignments").json()["partitions"])
