"""The one rule for records that a query should read and that are gone: `failOnDataLoss`.

Whoever finds a loss says it to `report`: `stream` before a batch (a topic deleted, made again, or ending
before the position), `plan` for offsets that a user wrote, `task` while it reads. With failOnDataLoss,
which is the default, the query ends; without, it goes on with what there is, and the gap is written down.
"""

from __future__ import annotations

import logging

from headwater.client.errors import DataLoss

logger = logging.getLogger("headwater.client")


def report(loss: DataLoss, fail: bool, going_on: str) -> None:
    """Raise the loss, or warn of it and say how the query goes on."""
    if fail:
        raise loss
    logger.warning("%s failOnDataLoss is false: %s", loss.args[0], going_on)


def made_again(topic: str) -> DataLoss:
    return DataLoss(
        f"Topic {topic!r} was deleted and made again since this query last read it.",
        hint="Its offsets mean other records now. Start with a new checkpoint, or set "
        "failOnDataLoss=false to go on with the new topic from its beginning.",
    )


def deleted(topic: str, partition: int) -> DataLoss:
    return DataLoss(
        f"{topic}-{partition} is gone: the topic was deleted.",
        hint="Create it again and start with a new checkpoint, or set failOnDataLoss=false to go on "
        "with the rest.",
    )


def ends_before(topic: str, partition: int, end: int, position: int) -> DataLoss:
    """The log was longer once. Waiting would be wrong: what is written up to the position would be
    skipped."""
    return DataLoss(
        f"{topic}-{partition} ends at offset {end}, and this query has come to offset {position}: the "
        "broker has lost records, or this is another topic of that name.",
        hint="Put the broker's data back; or start with a new checkpoint; or set failOnDataLoss=false to "
        "go on from the beginning of what there is.",
    )


def begins_after(topic: str, partition: int, begin: int, position: int) -> DataLoss:
    return DataLoss(
        f"Offset {position} of {topic}-{partition} is not in the log, which begins at {begin}.",
        hint="Retention removed it, or the topic was made again. Set failOnDataLoss=false to go on with "
        "what is there.",
    )


def not_there(
    option: str, topic: str, partition: int, offset: int, first: int, last: int
) -> DataLoss:
    """What a user wrote into an option."""
    return DataLoss(
        f"{option} says {offset} for {topic}-{partition}, which holds offsets {first} to {last}.",
        hint="Choose offsets that are there, or failOnDataLoss=false to read what is.",
    )
