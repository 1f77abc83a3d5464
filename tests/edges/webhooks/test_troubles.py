"""A webhook or a bridge that gets nothing done is shown so in the console, though its process runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.client import groups
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.console.watching.parts import Parts
from headwater.edges.services import State
from headwater.project import control, record, troubles
from headwater.project.file import Project
from headwater.project.record import Entry
from headwater.project.troubles import Trouble
from tests.edges.running import edges, until
from tests.edges.webhooks.receiver import SECRET, receiver


def test_a_receiver_that_fails_makes_its_webhook_a_failing_one_until_it_is_well(
    log: Log, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    name, is_well = topic(), [False]
    with receiver(lambda request: 200 if is_well[0] else 500) as inbox:
        shop = {
            "from": f"topic:{name}",
            "to": inbox.url,
            "secret": "${SHOP_SECRET}",
            "allow_private": True,
        }
        shop |= {
            "breaker_failures": 1,
            "breaker_wait_s": 0.1,
            "first_wait_s": 0.1,
            "start": "beginning",
        }
        webhooks = {"webhooks": {"shop": shop}}
        project = Project(tmp_path / "headwater.toml", edges=webhooks)
        folder = control.folder_of(project)
        folder.mkdir(parents=True)
        record.write(folder, [Entry("edges", "running", os.getpid())], "")
        parts = Parts(project)

        def shown() -> Entry:
            return next(each for each in parts.all()[1] if each.name == "webhooks.shop")

        assert shown().state == "running"
        publish(log, name, Draft(None, b"1"))
        with edges(log.bootstrap, webhooks, project) as running:
            found = until(lambda: shown().state == "failing" and shown(), "it is seen to fail")
            assert "500" in (found.reason or "") and found.since > 0
            assert (
                groups.named(log, "headwater.webhook.shop").lag == 1
            )  # though nothing was ever delivered
            assert running.context.status.of("webhooks.shop").trouble == found.reason
            assert (folder / troubles.FILE).stat().st_mode & 0o077 == 0
            is_well[0] = True
            until(lambda: shown().state == "running", "it is well")
            assert inbox.taken[0].body == b"1"


def test_a_subscription_that_fails_is_shown_beside_what_the_file_names(tmp_path: Path):
    project = Project(tmp_path / "headwater.toml", edges={"webhooks": {"shop": {}}})
    folder = control.folder_of(project)
    folder.mkdir(parents=True)
    record.write(folder, [Entry("edges", "running", os.getpid())], "")
    troubles.write(folder, {"webhooks.theirs.f1a57c00": Trouble("the receiver answered 500", 5.0)})
    parts = Parts(project)
    found = {each.name: each for each in parts.all()[1]}
    assert found["webhooks.theirs.f1a57c00"].reason == "the receiver answered 500"
    assert found["webhooks.theirs.f1a57c00"].state == "failing"
    # It is paused by its own API, by who may.
    assert [parts.can_ask(each) for each in ("edges", "webhooks.shop")] == [True, True]
    assert not parts.can_ask("webhooks.theirs.f1a57c00")


def test_a_service_that_could_not_be_started_is_in_trouble_and_a_paused_one_is_not():
    assert State("waiting", 0).trouble is None
    assert State("waiting", 2, "the other side is away").trouble == "the other side is away"
    assert State("paused", 2, "the other side is away").trouble is None
    assert State("running", 0, None, lambda: {"trouble": "no answer"}).trouble == "no answer"


def test_what_a_process_left_that_runs_no_more_is_no_trouble(tmp_path: Path):
    assert troubles.read(tmp_path) == {}
    troubles.write(tmp_path, {"webhooks.shop": Trouble("it fails", 5.0)})
    assert troubles.read(tmp_path) == {"webhooks.shop": Trouble("it fails", 5.0)}
    path = tmp_path / troubles.FILE
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "pid": 2**22 + 1}))
    assert troubles.read(tmp_path) == {}
    path.write_text("{")
    assert troubles.read(tmp_path) == {}
