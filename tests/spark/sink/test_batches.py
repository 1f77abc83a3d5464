"""What becomes of a micro-batch, step by step: prepared, decided, ended, and every way to die between.

tasks prepare        driver decides          driver ends            checkpoint
──────●──────────────────●──────────────────────●──────────────────────●────▶
      nothing counts     everything counts      everything is seen     no replay any more
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headwater.client import cluster as connect
from headwater.client import transaction
from headwater.client.errors import BrokerUnreachable, TransactionLost
from headwater.record.records import Record, build
from headwater.spark.sink import open_transactions
from headwater.spark.sink.decisions import PLACE, Decision, Decisions
from headwater.spark.sink.errors import BatchRefused, BatchTooLong
from headwater.spark.sink.producer import Producing
from headwater.spark.sink.unsent import Unsent
from tests.compat.cluster import Cluster
from tests.compat.waiting import until
from tests.spark.sink.acting import Died, Run, _arrow
from tests.spark.sink.sessions import committed

NewRun = Callable[..., Run]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    for each in connect._shared.values():
        each.close()


@pytest.fixture
def new_run(cluster: Cluster, new_name: Callable[[], str]) -> NewRun:
    name = cluster.create_topic(new_name(), 2)
    return lambda **more: Run(cluster.bootstrap, name, f"query-{name}", **more)


def seen(run: Run) -> list[str]:
    found = committed(run.bootstrap, run.topic)
    return sorted(each.value().decode() for of in found.values() for each in of)


def shows(run: Run, rows: list[str]) -> bool:
    """Whether readers see these, and no others. Apache Kafka answers a commit before its markers are written:
    until then they see less."""
    until(lambda: len(seen(run)) >= len(rows), f"{len(rows)} rows")
    return seen(run) == rows


def test_nothing_is_seen_before_the_driver_has_committed(new_run: NewRun) -> None:
    run = new_run()
    messages = run.tasks(0, ["a", "b"], ["c"])
    assert seen(run) == []
    run.commit(0, messages)
    assert shows(run, ["a", "b", "c"])


def test_a_batch_without_a_decision_is_replaced_whatever_its_rows_and_tasks_are_now(
    new_run: NewRun,
) -> None:
    new_run().tasks(0, ["a"], ["b"], ["c"])
    run = new_run()
    run.do(0, ["d", "e"], ["f"])
    assert shows(run, ["d", "e", "f"]), "the third task's transaction must not hold up readers"


def test_a_decided_batch_is_finished_and_not_written_again(new_run: NewRun) -> None:
    new_run(dies_deciding=True).do(0, ["a"], ["b", "c"])
    run = new_run()
    assert seen(run) == []
    run.do(0, ["x", "y"], ["z"], ["more"])
    assert shows(run, ["a", "b", "c"]), "rows and tasks of the replay do not matter"
    run.do(1, ["d"])
    assert shows(run, ["a", "b", "c", "d"])


def test_a_batch_that_was_ended_before_the_crash_is_not_written_again(new_run: NewRun) -> None:
    new_run().do(0, ["a"], ["b"])
    run = new_run()
    run.do(0, ["a"], ["b"])
    assert shows(run, ["a", "b"])


def test_a_replay_finds_the_decision_when_the_group_is_gone(new_run: NewRun) -> None:
    first = new_run(dies_deciding=True)
    first.do(0, ["a"], ["b"])
    run = new_run()
    admin = AdminClient({"bootstrap.servers": run.bootstrap})
    group = Decisions(run.cluster, run.query).group
    admin.delete_consumer_groups([group])[group].result()
    run.do(0, ["x"], ["y"])
    assert shows(run, ["a", "b"])


def test_a_decision_is_not_overlooked_while_another_query_decides(new_run: NewRun) -> None:
    """
    _headwater_sink   │ other: open ………………│ ours: committed │
                      ╰ readers of committed data get no further
    """
    run, other = new_run(), new_run()
    other.query += "-other"
    run.do(0, ["a"])
    deciding = transaction.begin(other.cluster, Decisions(other.cluster, other.query).group, 60_000)
    record = memoryview(bytearray(build([Record(0, 0, b"other", b"")])))
    producing = Producing(other.cluster, deciding, 0, 5.0)
    producing.send([Unsent(*PLACE, 1, record)])
    producing.flush()
    run.do(1, ["b"])
    impatient = connect.Cluster({**run.cluster.settings, "default.api.timeout.ms": "500"})
    with pytest.raises(BrokerUnreachable, match="has not ended"):
        Decisions(impatient, run.query)._search()
    transaction.end(other.cluster, deciding, commit=False)
    found = Decisions(impatient, run.query)._search()
    assert found is not None and found.batch == 1
    impatient.close()


def test_two_queries_do_not_meet(new_run: NewRun) -> None:
    run, other = new_run(), new_run()
    other.query = "another-" + other.query
    run.do(0, ["a"])
    other.do(0, ["b"])
    assert shows(run, ["a", "b"])


def test_an_older_checkpoint_is_refused(new_run: NewRun) -> None:
    run = new_run()
    run.do(4, ["a"])
    run.do(5, ["b"])
    with pytest.raises(BatchRefused, match="asks for batch 4, but batch 5"):
        new_run().do(4, ["a"])
    assert shows(run, ["a", "b"])


def test_a_batch_without_rows_leaves_nothing(new_run: NewRun) -> None:
    run = new_run()
    run.do(0, [], [])
    assert Decisions(run.cluster, run.query).noted() is None
    run.do(1, [], ["a"], [])
    assert shows(run, ["a"])


# ---- two drivers ---------------------------------------------------------------------------------


def test_a_driver_that_wakes_up_after_its_replacement_has_committed_changes_nothing(
    new_run: NewRun,
) -> None:
    old, new = new_run(), new_run()
    messages = old.tasks(0, ["a"], ["b"])
    new.do(0, ["a"], ["b"])
    old.commit(0, messages)
    assert shows(new, ["a", "b"])
    new.do(1, ["c"])
    with pytest.raises(BatchRefused, match="asks for batch 0, but batch 1"):
        old.commit(0, messages)
    assert shows(new, ["a", "b", "c"])


def test_a_driver_cannot_commit_what_its_replacement_has_fenced(new_run: NewRun) -> None:
    old, new = new_run(), new_run()
    stale = old.tasks(0, ["a"], ["b"])
    fresh = new.tasks(0, ["a"], ["b"])
    with pytest.raises(TransactionLost, match="2 of 2 transactions"):
        old.commit(0, stale)
    new.commit(0, fresh)
    assert shows(new, ["a", "b"])


def test_of_two_deciders_the_older_is_fenced(new_run: NewRun) -> None:
    old, new = new_run(), new_run()
    messages = old.tasks(0, ["a"])
    decisions = Decisions(old.cluster, old.query)
    identity, _ = decisions.claim()
    Decisions(new.cluster, new.query).claim()
    with pytest.raises((BatchRefused, TransactionLost)):
        decisions.write(identity, Decision(0, "token", 1, (messages[0].part,)))
    assert Decisions(new.cluster, new.query).noted() is None


# ---- failed and repeated tasks -------------------------------------------------------------------


def test_what_a_killed_attempt_left_open_is_taken_back(new_run: NewRun) -> None:
    run = new_run()
    run.do(0, ["a"])
    run.task(1, 0, ["lost"])  # killed after its last row
    again = run.task(1, 0, ["b"], attempt=1)
    run.commit(1, [again])
    assert shows(run, ["a", "b"])


def test_a_speculative_attempt_does_not_disturb_the_first(new_run: NewRun) -> None:
    run = new_run()
    first = run.task(0, 0, ["a"])
    run.task(0, 0, ["a"], attempt=1)
    run.commit(0, [first])
    assert shows(run, ["a"])


def is_held_up(run: Run) -> bool:
    """Whether readers of committed data stop before the end of a partition."""
    places = dict.fromkeys([(run.topic, 0), (run.topic, 1)], connect.LATEST)
    stable = run.cluster.list_offsets(places, connect.READ_COMMITTED)
    return stable != run.cluster.list_offsets(places)


def test_a_speculative_attempt_that_lost_holds_nobody_up(new_run: NewRun) -> None:
    run = new_run()
    run.do(0, ["a"])
    first = run.task(1, 0, ["b"])
    run.task(1, 0, ["b"], attempt=1)  # killed: the first was faster
    run.commit(1, [first])
    until(lambda: not is_held_up(run), "the markers")  # written after the answer, by Kafka
    slow = run.task(2, 0, ["c"])
    run.commit(2, [run.task(2, 0, ["c"], attempt=1)])
    until(lambda: not is_held_up(run), "the markers")  # written after the answer, by Kafka
    assert shows(run, ["a", "b", "c"])
    assert open_transactions.closed(run.cluster, [slow.part]) == [slow.part]


def test_a_loser_that_has_begun_and_written_nothing_yet_cannot_go_on(new_run: NewRun) -> None:
    """
    loser   begin ─────────────────────── add a partition: refused
    driver          decide ── end ── fence
    """
    run = new_run()
    run.do(0, ["a"])
    loser = transaction.begin(run.cluster, f"headwater-sink-{run.query}#0-1", 60_000)
    run.do(1, ["b"])
    with pytest.raises(TransactionLost):
        transaction.add_partitions(run.cluster, loser, [(run.topic, 0)])
    until(lambda: not is_held_up(run), "the markers")  # written after the answer, by Kafka


def test_a_sink_to_a_topic_with_numbers_at_its_end_is_not_taken_for_a_task_of_another(
    new_run: NewRun, cluster: Cluster
) -> None:
    """Two writes of one foreachBatch, from threads: one ends while the other is about to decide."""
    run = new_run()
    other = Run(cluster.bootstrap, run.topic, f"{run.query}-2026-11")
    decisions = Decisions(run.cluster, other.query)
    identity, _ = decisions.claim()
    run.do(0, ["a"])
    decisions.write(identity, Decision(0, "run", 1))
    assert (
        run.task(1, 0, ["b"]).task.transactional_id
        != Decisions(run.cluster, f"{run.query}-0-0").group
    )


def test_a_loser_that_begins_after_the_decision_writes_nothing(new_run: NewRun) -> None:
    run = new_run()
    run.do(0, ["a"])
    run.do(1, ["b"])
    with pytest.raises(BatchRefused):
        run.task(1, 0, ["b"], attempt=1)
    with pytest.raises(BatchRefused):
        run.task(0, 0, ["a"], attempt=1)
    until(lambda: not is_held_up(run), "the markers")  # written after the answer, by Kafka
    assert shows(run, ["a", "b"])


def test_an_orphan_is_fenced_once_and_not_in_every_batch(new_run: NewRun) -> None:
    run = new_run()
    run.do(0, ["a"])
    loser = run.task(1, 0, ["b"], attempt=3)
    run.do(1, ["b"])
    assert open_transactions.closed(run.cluster, [loser.part])
    group = Decisions(run.cluster, run.query).group
    assert open_transactions.orphans(run.cluster, group) == []


def test_what_a_dead_run_left_open_is_ended_by_a_batch_without_rows(new_run: NewRun) -> None:
    new_run().tasks(0, ["a"], ["b"])  # its driver is killed here
    run = new_run()
    assert is_held_up(run)
    run.do(0, [], [])
    until(lambda: not is_held_up(run), "the markers")  # written after the answer, by Kafka
    assert seen(run) == []


def test_abort_takes_back_what_was_prepared(new_run: NewRun) -> None:
    run = new_run()
    run.abort(0, [*run.tasks(0, ["a"], ["b"]), None])
    run.do(0, ["c"])
    assert shows(run, ["c"])


def test_abort_does_not_take_back_what_was_decided(new_run: NewRun) -> None:
    """Spark calls abort as well when commit itself has failed."""
    run = new_run(dies_deciding=True)
    messages = run.tasks(0, ["a"], ["b"])
    with pytest.raises(Died):
        run.commit(0, messages)
    run.abort(0, messages)
    again = new_run()
    again.do(0, ["a"], ["b"])
    assert shows(run, ["a", "b"])


# ---- out of time ---------------------------------------------------------------------------------


def test_a_batch_that_outlives_its_transactions_is_refused_whole(new_run: NewRun) -> None:
    run = new_run(options={"kafka.transaction.timeout.ms": "300"})
    messages = run.tasks(0, ["a"])
    parts = [each.part for each in messages]
    until(lambda: open_transactions.closed(run.cluster, parts), "the broker's time-out", timeout=60)
    with pytest.raises(BatchTooLong, match=r"(?s)nothing of it is in the topic.*batch_records_max"):
        run.commit(0, messages)
    again = new_run()
    again.do(0, ["b"])
    assert shows(run, ["b"])


def test_a_task_that_outlives_its_transaction_says_so(new_run: NewRun) -> None:
    run = new_run(options={"kafka.transaction.timeout.ms": "300"})

    def slowly() -> Iterator[Any]:
        first, second = _arrow(["a", "b"])
        yield first
        until(lambda: is_held_up(run), "an open transaction", timeout=60)
        until(lambda: not is_held_up(run), "the broker's time-out", timeout=60)
        yield second

    with pytest.raises(BatchTooLong, match=r"took longer than the 0\.3 s"):
        run.write(0, 0, slowly())
    assert seen(run) == []


def lose(run: Run, message: object) -> None:
    """What a broker's time-out does to the transaction of a part."""
    who = message.part.identity  # type: ignore[attr-defined]
    transaction.begin(run.cluster, who.transactional_id, 60_000)


def decided_and_lost(new_run: NewRun) -> Run:
    """Task 1's transaction ran out of time after the decision, with the driver away."""
    run = new_run(dies_deciding=True)
    messages = run.tasks(0, ["a"], ["b", "c"])
    with pytest.raises(Died):
        run.commit(0, messages)
    lose(run, messages[1])
    return new_run()


def test_a_part_that_was_lost_after_the_decision_is_written_again(new_run: NewRun) -> None:
    run = decided_and_lost(new_run)
    run.do(0, ["a"], ["c", "b"])
    assert shows(run, ["a", "b", "c"])
    new_run().do(0, ["a"], ["b", "c"])
    assert shows(run, ["a", "b", "c"])


@pytest.mark.parametrize("parts", [(["a"], ["b", "x"]), (["a"], ["b", "c"], ["d"]), (["a"],)])
def test_a_lost_part_whose_rows_are_others_now_is_refused(
    parts: tuple[list[str], ...], new_run: NewRun
) -> None:
    run = decided_and_lost(new_run)
    with pytest.raises(BatchRefused, match=r"task 1 .* ran out of time"):
        run.do(0, *parts)
    again = new_run()
    again.do(0, ["a"], ["b", "c"])
    assert shows(again, ["a", "b", "c"])


def test_a_part_that_was_committed_is_known_by_its_data(new_run: NewRun) -> None:
    """Both ways of looking: with somebody's open transaction before it, and without."""
    other = new_run()
    other.query += "-other"
    blocking = other.tasks(0, ["blocking"])
    run = new_run()
    messages = run.tasks(0, ["a"], ["b"])
    run.commit(0, messages)
    for each in messages:
        lose(run, each)
    new_run().do(0, ["a"], ["b"])
    other.abort(0, blocking)
    new_run().do(0, ["a"], ["b"])
    assert shows(run, ["a", "b"])
