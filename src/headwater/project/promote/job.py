"""The move of a project to Apache Kafka, step by step. Called by `headwater promote`.

    1  nothing runs, both sides answer, headwater.toml can be changed     else nothing is begun
    2  topics are made in Kafka and filled, offset by offset              a kill here: the next run goes on
    3  every record is compared
    4  groups get their positions, topics their settings
    5  checkpoints get the new ids of topics, headwater.toml the new addresses

The log itself is only read, by a broker of our own that neither deletes nor compacts. Each step can be done
again, so a run that was killed is repeated by the next one, which says where it went on.
"""

from __future__ import annotations

from pathlib import Path

from headwater.log import atomic_file
from headwater.project.promote import addresses, checkpoints, preflight
from headwater.project.promote.errors import CannotPromote
from headwater.project.promote.move import Audience, Move, Order, Report

__all__ = ["Order", "Report", "promote"]


def promote(order: Order, audience: Audience) -> Report:
    """Do it; CannotPromote leaves the project as it was."""
    text = order.project.path.read_text(encoding="utf-8")
    if order.project.bootstrap is not None:
        raise CannotPromote(
            f"this project's log is at {order.project.bootstrap} already: there is nothing to move",
            hint="change bootstrap in [log] to use another Kafka",
        )
    changed = addresses.moved(text, order.kafka, order.spark)
    root = preflight.checkpoint_folder(order.project)
    with preflight.alone(order.project):
        checkpoints.require_finished(root)
        preflight.check_addresses(order)
        with preflight.source(order.project) as old:
            move = Move(order, old, audience)
            try:
                move.plan()
                if order.dry_run:
                    return move.report
                move.fill()
                move.compare()
                move.hand_over()
            finally:
                move.close()
        move.report.queries = checkpoints.rename_topics(root, move.renamed())
        move.report.backup = _rewrite(order.project.path, text, changed)
        move.journal.remove()
    return move.report


def _rewrite(path: Path, text: str, changed: str) -> Path:
    backup = path.with_name(f"{path.name}.before-kafka")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.before-kafka-{number}")
    atomic_file.write(backup, text)
    atomic_file.write(path, changed)
    return backup
