"""`headwater forget`: a subject's personal data becomes unreadable, everywhere and permanently.

Puts together `events.keys` (destroy the key), `events.erasure` (tombstones) and `cli.excision` (take
records out of the log's files).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Container
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from headwater.cli import excision
from headwater.cli.admin import admin, bootstrap_option, json_option, print_json
from headwater.cli.events import check_installed
from headwater.cli.properties import client_config, client_settings
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient

KEYS = "__headwater_keys"
FORMER_KEYS = "headwater.keys"
_PATIENCE_S = 10.0
"""Owners look every two seconds."""
_ROUNDS_MAX = 5
_WRITTEN_AGAIN = (
    "events were written under this key each time; run this again when nobody sends any"
)


def add_to(app: typer.Typer) -> None:
    app.command("forget")(forget)


def forget(
    subject: str = typer.Argument(..., metavar="SUBJECT", help="Whose data is to be forgotten."),
    topics: list[str] = typer.Option(
        [],
        "--topic",
        metavar="TOPIC",
        help="Send a tombstone there; may be given again. Without it: to every topic that has a "
        "record with the subject as its key.",
    ),
    excised: list[str] = typer.Option(
        [],
        "--excise",
        metavar="TOPIC",
        help="Also take all records with this key out of that topic's files, of those that derive "
        "from it (snapshots, answers, commands) and of dead letters; may be given again.",
    ),
    keys: str = typer.Option(KEYS, "--keys", metavar="TOPIC", help="The topic of the keys."),
    why: str = typer.Option("", "--why", metavar="TEXT", help="Reason, for the audit records."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Forget a person: destroy the key of their personal data, and tell every view.

    What was sealed with the key stays in the log and can never be read again. The key's own
    record, and the subject's records in compacted topics, are taken out of the log's files
    (headwater's broker; on Apache Kafka compaction does it later). Twice does no harm.
    It waits until owners of excised events have dropped what they hold. What could not be
    reached, excised or confirmed is named.

    Example: headwater forget customer-17 --excise customer-notes --why "asked for it"
    """
    check_installed()
    if not yes:
        _confirm(subject)
    with admin(bootstrap) as client:
        there = client.list_topics(timeout=10).topics
        for topic in [*topics, *excised]:
            if topic not in there:
                raise RequestRefused(
                    f"there is no topic {topic!r}", hint="headwater topics list shows those"
                )
        done: dict[str, Any] = {"subject": subject}
        done |= _destroy(client, bootstrap, keys, subject, why, there)
        reach = _reach(bootstrap, subject, topics, excised, keys)
        can = excision.can_excise(client, keys if keys in there else next(iter(there), ""))
        # Where compaction would remove what the tombstone covers, it need not be waited for. Before
        # the tombstones, which have the same key and must stay for readers to see.
        compacted = {topic for topic in reach.held if _is_compacted(client, topic)}
        wanted = sorted({*excised, *compacted, *reach.derived}) if can else []
        work = excision.Excising(client, bootstrap, subject, why)
        for topic in wanted:
            work.excise(topic)
        done |= _bury(bootstrap, subject, reach, excised if can else [], work)
        done |= work.told(done.get("copies", {}))
        done["skipped"] = _skipped(reach, excised, wanted, can)
    _show(done, as_json)
    return 1 if work.incomplete else 0


class _Reach(NamedTuple):
    """Where the subject is."""

    looked: Collection[str]
    """Topics that were looked into."""
    places: list[tuple[str, int]]
    """Topics and partitions where a record stands under its key, or did in a topic that is to be excised."""
    held: list[str]
    """Their topics, and those with a record behind a tombstone that took nothing out."""
    derived: list[str]
    """What derives from the topics that are to be excised, and holds the key."""
    replies: list[str]
    """Answers to other processes, under keys of theirs."""
    letters: list[str]
    """Dead letters under its key."""


def _skipped(reach: _Reach, excised: list[str], done: list[str], can: bool) -> dict[str, str]:
    """What still has records of the subject, and why."""
    found = dict.fromkeys(reach.replies, "answers under other keys; they are kept for an hour")
    standing = {*reach.held, *reach.letters}
    for topic in sorted(standing | set(excised) | set(reach.derived) if not can else standing):
        if topic not in done:
            found[topic] = (
                f"its records stay; --excise {topic} takes them out of the files"
                if can
                else "its records stay; only headwater's broker can excise"
            )
    return found


def _confirm(subject: str) -> None:
    if not sys.stdin.isatty():
        raise RequestRefused(
            f"the personal data of {subject} would be permanently unreadable", hint="say --yes"
        )
    typer.confirm(f"Make the personal data of {subject} permanently unreadable?", abort=True)


def _destroy(
    client: AdminClient, bootstrap: str, topic: str, subject: str, why: str, there: Container[str]
) -> dict[str, Any]:
    from headwater.events.keys import Keys

    if topic not in there and FORMER_KEYS not in there:
        return {"keys": 0, "key_records_excised": 0}
    with Keys(bootstrap, client=client_config(), topic=topic) as store:
        store.forget(subject)
        # Also of keys that somebody destroyed before, and whose records are still there.
        places = store.destroyed(subject)
    if not excision.can_excise(client, topic):
        return {"keys": len(places), "key_records_excised": None}
    asked = ((client, bootstrap, *place, why or "forget") for place in places)
    taken = [excision.excise_record(*each) for each in asked]
    copies = {topic: list(dict.fromkeys(name for _, names in taken for name in names))}
    removed = sum(count for count, _ in taken)
    return {"keys": len(places), "key_records_excised": removed, "copies": copies}


def _reach(
    bootstrap: str, subject: str, topics: list[str], excised: list[str], keys: str
) -> _Reach:
    from headwater.client.cluster import Cluster
    from headwater.events import derived_topics, erasure

    cluster: Cluster = Cluster(client_settings(bootstrap))
    key = subject.encode()
    try:
        known = cluster.metadata(None).topics
        beside = [each for topic in excised for each in derived_topics.topics_of(topic, known)]
        # What derives from another of them is excised with that one, named or not.
        excised = [topic for topic in excised if topic not in beside]
        wanted = sorted({*topics, *excised}) if topics else erasure.candidates(cluster)
        found = {
            t: erasure.standing(cluster, t, key) for t in wanted if t not in (keys, FORMER_KEYS)
        }
        places = [(topic, each) for topic, (standing, _) in found.items() for each in standing]
        # Whatever stands there: an owner may hold what was taken out before.
        fresh = [(t, p) for t in excised if t != keys for p in erasure.places_of(cluster, t, key)]
        places = sorted({*places, *fresh})
        letters = [t for t in derived_topics.letters(known) if erasure.holds(cluster, t, key)]
        replies = [f"{topic}.replies" for topic in excised if f"{topic}.replies" in known]
        beside = sorted({*beside, *(letters if excised else ())} - {*excised})
        held = {topic for topic, (_, holds) in found.items() if holds} | {t for t, _ in places}
        return _Reach(found, places, sorted(held), beside, replies, letters)
    finally:
        cluster.close()


def _bury(
    bootstrap: str, subject: str, reach: _Reach, excised: list[str], work: excision.Excising
) -> dict[str, list[str]]:
    """Send the tombstones, until nothing is left of what owners wrote before they obeyed them.

    Where, and the places whose owners have not said that they do.
    """
    from headwater.client.cluster import Cluster
    from headwater.events import erasure
    from headwater.events import options as clients

    key, unconfirmed = subject.encode(), set[tuple[str, int]]()
    settings = clients.for_confluent(bootstrap, client_config())
    cluster = Cluster(client_settings(bootstrap))
    try:
        told = places = sorted({*reach.places, *erasure.taken_out(cluster, reach.looked, key)})
        for number in range(_ROUNDS_MAX):
            offsets = erasure.bury(settings, key, places)
            owned = {
                place: offsets[place]
                for place in places
                if place[0] in excised and f"{place[0]}.answers" in reach.derived
            }
            obeyed = erasure.wait_for_owners(cluster, owned, _PATIENCE_S)
            unconfirmed.update(obeyed.unconfirmed)
            for topic in reach.derived if excised else ():
                work.excise(topic)
            # Events that an owner wrote before it obeyed, from what it held.
            again = [
                place
                for place, end in obeyed.until.items()
                if erasure.holds_before(cluster, place, key, end)
            ]
            if not again:
                break
            for topic in sorted({topic for topic, _ in again}):
                if number < _ROUNDS_MAX - 1:
                    work.excise(topic)
                else:
                    work.incomplete[topic] = _WRITTEN_AGAIN
            places = again
    finally:
        cluster.close()
    both = {"tombstones": told, "unconfirmed": sorted(unconfirmed)}
    return {name: [f"{topic}-{n}" for topic, n in each] for name, each in both.items()}


def _is_compacted(client: AdminClient, topic: str) -> bool:
    from headwater.client.settings import of_topic

    return "compact" in (of_topic(client, topic)["cleanup.policy"].value or "")


def _show(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    print(f"{done['keys']} keys of {done['subject']} are destroyed.")
    if done["key_records_excised"] is None:
        print("Their records stay in the log's files until compaction (this is not headwater).")
    else:
        print(f"{done['key_records_excised']} of their records are out of the log's files.")
    said = ", ".join(done["tombstones"]) or "no topic: none has a record with this key"
    print(f"Tombstones went to {said}.")
    for topic, count in done["excised"].items():
        print(f"{count:,} records are out of {topic}.")
    for place in done["unconfirmed"]:
        print(
            f"Not confirmed: no owner of {place} has said within {_PATIENCE_S:g} s that it forgot. One that "
            "starts later will; if one runs and hangs, run this again when it is well."
        )
    for topic, why in done["incomplete"].items():
        print(f"Not complete: {topic} ({why}).")
    for topic, why in done["skipped"].items():
        print(f"Not reached: {topic} ({why}).")
    for names in done["copies"].values():
        print(excision.beside_the_log(names, len(names)))
