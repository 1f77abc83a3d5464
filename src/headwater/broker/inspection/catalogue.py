"""What is wrong with the catalogue, and what mends it: `check` asks once the whole folder was read.

An empty batch in place of a damaged one would let what that batch took away come back. So the repair looks
for what it was about. One wrong bit is set right. Where the key can be read, the newest value before it
counts, and of rights and users the one that lets nobody in. Where it cannot, all rights that may be older
than what was last said of them are named.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headwater.broker import internal_topics, producer_ids
from headwater.broker.catalogue import LOG_NAME, Topic
from headwater.broker.inspection.catalogue_view import RIGHTS, CatalogueView, Json
from headwater.broker.inspection.correction import set_right
from headwater.broker.inspection.facts import Facts
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.folder import Folder
from headwater.broker.inspection.reader import Reader
from headwater.broker.inspection.remedy import Edit, EditSegment, FillHole, WriteCatalogue
from headwater.broker.inspection.scan import key_of
from headwater.broker.inspection.writer import batch_of, empty_batch
from headwater.broker.security.acls import Permission
from headwater.broker.settings import Settings
from headwater.broker.transactions.transaction import Transaction
from headwater.log.segment import file_name
from headwater.record import varint

KEY = (LOG_NAME, 0)
_KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
_NAMED_MAX = 50
_REGION_MAX = 64 * 1024


def configs_for(name: str) -> dict[str, str]:
    """Configs for a topic whose own are lost: such that nothing of it is removed."""
    row = internal_topics.find(name)
    return dict(_KEPT) if row is None else row.configs(Settings({}), {})


def topic_record(topic: Topic) -> tuple[str, dict[str, Any]]:
    return f"topic/{topic.name}", topic.to_json()


def inspect(
    folder: Folder,
    view: CatalogueView,
    facts: Mapping[Any, Facts],
    known: Collection[Transaction],
) -> Iterator[Finding]:
    """That it is there, and that its records make sense. `known` have producer ids, used or not."""
    highest, proven = _highest_ids(facts.values(), known)
    directory = folder.root / f"{LOG_NAME}-0"
    if KEY not in folder.partitions:
        yield Finding(
            "catalogue-missing",
            Severity.DAMAGE,
            f"{LOG_NAME}-0",
            "the catalogue, which says which topics there are, is missing",
            "the broker does not start, because it knows no topic any more; their configs, and all "
            "users, rules and settings that were made while it ran, are lost",
            LOG_NAME,
            0,
            remedy=WriteCatalogue(
                "make a new one from the folders of the topics, with configs under which nothing is "
                "removed; set the topics' own configs again, and create users and rules again",
                directory,
                ((producer_ids.KEY, {"next": producer_ids.end_beyond(highest)}),),
            ),
        )
        return
    for offset, why in view.bad:
        yield Finding(
            "catalogue-record-bad",
            Severity.DAMAGE,
            f"{LOG_NAME}-0",
            f"the record at offset {offset} cannot be understood: {why}",
            "the broker may refuse to start",
            LOG_NAME,
            0,
            offset,
            offset,
        )
    yield from (*_uncertain(view), *_producer_ids(folder, view, highest, proven))


def _uncertain(view: CatalogueView) -> Iterator[Finding]:
    older = view.rights_before(view.filled)
    if older:
        yield Finding(
            "rights-uncertain",
            Severity.NOTE,
            f"{LOG_NAME}-0",
            f"a repair has lost records of the catalogue up to offset {view.filled}",
            f"they may have taken rights away, or changed passwords, of these: {_named(older)}",
            LOG_NAME,
            0,
        )


def _highest_ids(facts: Iterable[Facts], known: Collection[Transaction]) -> tuple[int, int]:
    """Of all producer ids that somebody has, and of those that no client can have made up."""
    given = max((each.highest_id for each in known), default=-1)
    found = [(each.producer_id_max, each.proven_id_max) for each in facts]
    highest, proven = (max(each) for each in zip((given, given), *found, strict=True))
    return highest, proven


def _producer_ids(
    folder: Folder, view: CatalogueView, highest: int, proven: int
) -> Iterator[Finding]:
    """`proven` was given out; `highest` may be an id that a client has made up."""
    at, _ = view.newest.get(producer_ids.KEY, (-1, None))
    if proven < view.producer_ids_end and view.filled <= at:
        return
    end = producer_ids.end_beyond(max(highest, view.producer_ids_end))
    yield Finding(
        "producer-ids-behind",
        Severity.DAMAGE,
        f"{LOG_NAME}-0",
        f"producer {highest} is in use, and the catalogue gives out ids from "
        f"{view.producer_ids_end} on",
        "a new producer may get the id of another; its records may then be refused, or taken for "
        "repetitions and dropped",
        LOG_NAME,
        0,
        remedy=WriteCatalogue(
            f"give out ids from {end} on",
            folder.root / f"{LOG_NAME}-0",
            ((producer_ids.KEY, {"next": end}),),
        )
        if view.is_whole
        else None,
    )


# ---- damaged batches -----------------------------------------------------------------------------


def explained(found: Iterable[Finding], view: CatalogueView, folder: Folder) -> Iterator[Finding]:
    """The same findings of the catalogue's segments, with what they mean for what it says."""
    for each in found:
        remedy = each.remedy
        if isinstance(remedy, EditSegment) and remedy.edit.header is None:
            yield _edited(each, remedy, view, folder)
        elif isinstance(remedy, FillHole):
            yield replace(each, means=_older(view, remedy.first_offset))
        else:
            yield each


def _edited(finding: Finding, remedy: EditSegment, view: CatalogueView, folder: Folder) -> Finding:
    edit = remedy.edit
    with Reader(remedy.directory / file_name(remedy.base_offset, ".log")) as reader:
        region = bytes(reader.get(edit.start, min(edit.end - edit.start, _REGION_MAX)))
    whole = set_right(region, edit.first_offset, None)
    if whole is not None:
        means = "the broker does not start, though one bit is all that is wrong"
        return _with(finding, remedy, means, "set that bit right; nothing is lost", whole)
    key = key_of(region)
    if key is None or not _is_believed(key, view) or edit.first_offset >= edit.next_offset:
        return _scattered(finding, remedy, view, region)
    before = view.newest.get(key)
    is_later = before is not None and before[0] > edit.first_offset
    value = None if before is None else before[1]
    if is_later:
        means = f"it was about {key}, of which a later record says more"
    elif key.partition("/")[0] in RIGHTS:
        value = _closed(key)
        means = f"what it said of {key} is lost; who is let in by mistake is worse than who is not"
    else:
        if key.startswith("topic/") and not _has_folder(folder, key.partition("/")[2]):
            value = None
        means = f"what it said of {key} is lost, which goes back to what was said before"
    gone = "is gone" if value is None else "is there"
    return _with(
        finding,
        remedy,
        means,
        f"let the catalogue say that {key} {gone}",
        _about(key, value, before is None, edit),
    )


def _about(key: str, value: Json, is_new: bool, edit: Edit) -> bytes:
    place = (edit.first_offset, edit.next_offset, edit.leader_epoch)
    if is_new and value is None:  # a topic that was made there: its folders have the rest
        return empty_batch(*place, timestamp=0)
    return batch_of({key: value}, *place)


def _scattered(
    finding: Finding, remedy: EditSegment, view: CatalogueView, region: bytes
) -> Finding:
    """Several batches, or one that nobody can read: rights that it names are taken away."""
    edit = remedy.edit
    means = _older(view, edit.first_offset)
    named = {
        key: _closed(key)
        for key in view.rights_before(edit.first_offset)
        if varint.encode(len(key.encode())) + key.encode() in region
    }
    end = edit.first_offset + len(named)
    if not named or end >= edit.next_offset:
        return replace(finding, means=means)
    epoch = edit.leader_epoch
    batch = batch_of(named, edit.first_offset, end, epoch)
    batch += empty_batch(end, edit.next_offset, epoch)
    return _with(finding, remedy, means, f"{remedy.says}; gone are {_named(named)}", batch)


def _with(finding: Finding, remedy: EditSegment, means: str, says: str, batch: bytes) -> Finding:
    edit = replace(remedy.edit, batch=batch)
    return replace(finding, means=means, remedy=replace(remedy, says=says, edit=edit))


def _older(view: CatalogueView, offset: int) -> str:
    rights = view.rights_before(offset)
    says = "the broker does not start; topics, settings, quotas go back to what was said of them before"
    if not rights:
        return f"{says}, and what was new is lost"
    return (
        f"{says}; it may have taken rights away, or changed passwords, of these: {_named(rights)}"
    )


def _named(keys: Collection[str]) -> str:
    more = f" and {len(keys) - _NAMED_MAX:,} more" if len(keys) > _NAMED_MAX else ""
    return ", ".join([*keys][:_NAMED_MAX]) + more


def _has_folder(folder: Folder, name: str) -> bool:
    return any(topic == name for topic, _ in folder.partitions)


def _closed(key: str) -> Json:
    """Of what may be said of a right or a user, that which lets nobody in."""
    return {} if _denies(key) else None


def _denies(key: str) -> bool:
    kind, _, name = key.partition("/")
    try:
        return kind == "acl" and json.loads(name)[6] == Permission.DENY
    except (ValueError, LookupError, TypeError):
        return False


def _is_believed(key: str, view: CatalogueView) -> bool:
    """Damage may lie in the key, too. One that nobody knows must be of a kind that does no harm."""
    return key in view.newest or key.startswith("topic/") or _denies(key)
