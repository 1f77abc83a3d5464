"""The demo's steps in order. Called by `headwater demo`."""

from __future__ import annotations

import time

from headwater.project.broker_process import BrokerProcess
from headwater.project.demo.clients import create_topic
from headwater.project.demo.produce import produce
from headwater.project.demo.replay import replay
from headwater.project.demo.summary import Audience, Plan, Summary


def run(plan: Plan, audience: Audience) -> Summary:
    """Do all of it; raises only where a step cannot be done, and leaves the verdict to Summary."""
    summary = Summary(topic=plan.topic, durability=plan.durability, data=str(plan.data))
    _keep_log(plan, summary, audience)
    if plan.shop:
        from headwater.project.demo.shop.job import keep_shop

        keep_shop(plan, summary, audience)
    summary.data_bytes = sum(f.stat().st_size for f in plan.data.rglob("*") if f.is_file())
    return summary


def _keep_log(plan: Plan, summary: Summary, audience: Audience) -> None:
    with BrokerProcess(plan.data, durability=plan.durability) as broker:
        audience.begin("Starting the broker")
        summary.start_s = broker.start()
        create_topic(broker.bootstrap, plan.topic)
        audience.end(f"answers after {summary.start_s:.2f} s")

        audience.begin("Producing", plan.records)
        notes = produce(plan, broker, summary, audience)
        audience.end(
            f"{summary.produced:,} records in {summary.produce_s:.2f} s; killed half-way, "
            f"back in {summary.restart_s:.2f} s"
        )

        audience.begin("Replaying from offset 0", summary.produced)
        begin = time.perf_counter()
        replay(broker.bootstrap, plan.topic, notes, summary, audience)
        summary.replay_s = time.perf_counter() - begin
        audience.end(f"{summary.replayed:,} records in {summary.replay_s:.2f} s")

        audience.begin("Stopping the broker")
        summary.resident_bytes = broker.resident_bytes()
        summary.stop_s = broker.stop()
        audience.end(f"gone after {summary.stop_s:.2f} s, all flushed")
