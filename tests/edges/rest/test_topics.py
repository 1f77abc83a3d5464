"""/v3/clusters/…: topics, partitions, settings and groups, for who may see them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.client import groups
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from tests.edges.rest.conftest import Clients
from tests.edges.running import until


def names(client: Clients, who: str, path: str, field: str = "topic_name") -> list[str]:
    return [each[field] for each in client(who).get(path).json()["data"]]


def test_topics_are_listed_for_who_may_see_them(
    client: Clients, cluster: str, topic: Callable[..., str]
):
    name = topic(2)
    assert name in names(client, "ann", f"{cluster}/topics")
    assert names(client, "eve", f"{cluster}/topics") == []
    assert not [each for each in names(client, "ann", f"{cluster}/topics") if each[:2] == "__"]
    assert name in client("ann").get("/topics").json() and client("eve").get("/topics").json() == []
    assert client("ann").get("/topics").headers["content-type"] == "application/vnd.kafka.v2+json"
    assert not [each for each in client("ann").get("/topics").json() if each[:2] == "__"]
    found = client("ann").get(f"{cluster}/topics/{name}").json()
    assert (found["kind"], found["partitions_count"]) == ("KafkaTopic", 2)
    assert client("ann").get(found["partitions"]["related"]).json()["data"][1]["partition_id"] == 1


def test_a_topic_is_created_configured_and_deleted(client: Clients, cluster: str):
    ann = client("ann")
    new = {
        "topic_name": "rest-made",
        "partitions_count": 3,
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    }
    made = ann.post(f"{cluster}/topics", json=new)
    assert (made.status_code, made.json()["partitions_count"]) == (201, 3)
    again = ann.post(f"{cluster}/topics", json=new)
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    config = f"{cluster}/topics/rest-made/configs"
    assert ann.get(f"{config}/cleanup.policy").json()["value"] == "compact"
    assert ann.put(f"{config}/retention.ms", json={"value": "5000"}).status_code == 204
    set_now = ann.get(f"{config}/retention.ms").json()
    assert (set_now["value"], set_now["source"]) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    assert ann.delete(f"{config}/retention.ms").status_code == 204
    assert ann.get(f"{config}/retention.ms").json()["is_default"]
    assert ann.put(f"{config}/retention.ms", json={"value": "soon"}).status_code == 400
    assert ann.get(f"{config}/nonsense").json()["error_code"] == 40404
    assert ann.delete(f"{cluster}/topics/rest-made").status_code == 204
    gone = ann.get(f"{cluster}/topics/rest-made")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40401)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "topics", {"topic_name": "t-new"}),
        ("DELETE", "topics/{topic}", None),
        ("PUT", "topics/{topic}/configs/retention.ms", {"value": "1"}),
        ("DELETE", "topics/{topic}/configs/retention.ms", None),
    ],
)
def test_to_write_to_a_topic_is_not_to_administer_it(
    client: Clients,
    cluster: str,
    topic: Callable[..., str],
    method: str,
    path: str,
    body: dict[str, str] | None,
):
    said = client("bob").request(method, f"{cluster}/{path.format(topic=topic())}", json=body)
    assert said.status_code == 403
    assert said.json()["error_code"] == 403
    assert "admin = […]" in said.json()["message"]


def test_the_logs_own_topics_are_not_there(client: Clients, cluster: str):
    ann = client("ann")
    for name in ("__consumer_offsets", "__headwater_keys", "headwater.keys", "_headwater_sink"):
        for path in ("", "/partitions", "/configs"):
            assert ann.get(f"{cluster}/topics/{name}{path}").status_code == 404
        assert ann.delete(f"{cluster}/topics/{name}").status_code == 404
        assert ann.post(f"{cluster}/topics", json={"topic_name": name}).status_code == 404
        assert ann.post(f"{cluster}/topics/{name}/records", json={}).status_code == 404


def test_groups_and_their_lag(client: Clients, cluster: str, log: Log, topic: Callable[..., str]):
    name = topic()
    for _ in range(5):
        publish(log, name, Draft(None, b"x"))
    groups.commit(log, "lagging", {(name, 0): 2})
    path = f"{cluster}/consumer-groups"
    until(lambda: "lagging" in names(client, "ann", path, "consumer_group_id"), "the group")
    assert "lagging" not in names(client, "eve", path, "consumer_group_id")
    assert client("eve").get(f"{path}/lagging").status_code == 403
    ann = client("ann")
    assert ann.get(f"{path}/lagging").json()["consumer_group_id"] == "lagging"
    (lag,) = ann.get(f"{path}/lagging/lags").json()["data"]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
    summary = ann.get(f"{path}/lagging/lag-summary").json()
    assert (summary["max_lag_topic_name"], summary["total_lag"]) == (name, 3)
    assert ann.get(f"{path}/nobody").status_code == 404


def test_the_lag_of_a_group_names_no_topic_that_the_token_does_not_see(
    client: Clients, cluster: str, log: Log, topic: Callable[..., str]
):
    name = topic()
    publish(log, name, Draft(None, b"x"))
    groups.commit(log, "half-seen", {(name, 0): 0})
    path = f"{cluster}/consumer-groups/half-seen"
    assert client("ann").get(f"{path}/lag-summary").json()["total_lag"] == 1
    eve = client("eve")
    for said in (eve.get(f"{path}/lags"), eve.get(f"{path}/lag-summary")):
        assert said.status_code == 200
        assert name not in said.text
    assert said.json()["total_lag"] == 0


def test_what_the_guard_refuses_has_the_form_too(client: Clients):
    said = client("ann").get("/v3/clusters", headers={"Authorization": "Bearer wrong"})
    assert (said.status_code, said.json()["error_code"]) == (401, 401)
    assert said.headers["content-type"] == "application/json"
    other = client("ann").get("/v3/clusters/other/topics")
    assert (other.status_code, other.json()["error_code"]) == (404, 404)
