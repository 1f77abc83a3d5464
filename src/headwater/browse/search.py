"""Records that are meant, in a range of a topic: by a filter, or by their key where its partition is known.

Both answer with a `Page`, which says how much was looked at and where to go on. A search never promises more
than its bounds: a page that `is_cut` is no answer to "is it there", and the caller must say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter, key_forms
from headwater.browse.key_reader import is_avro, key_reader
from headwater.browse.pages import BOUNDS, LIMIT, Bounds, Page, Progress, page
from headwater.client.log import Log
from headwater.client.partitioner import by_crc32, by_murmur2
from headwater.client.places import Place


def search(
    log: Log,
    topic: str,
    wanted: Filter,
    decoder: Decoder,
    place: Place | None = None,
    *,
    back: bool = True,
    until: Place | None = None,
    limit: int = LIMIT,
    partitions: list[int] | None = None,
    bounds: Bounds = BOUNDS,
    progress: Progress | None = None,
) -> Page:
    """The records between `place` and `until` that the filter keeps, the newest first unless not `back`."""
    return page(
        log,
        topic,
        place,
        back=back,
        until=until,
        limit=limit,
        keep=wanted.compiled(decoder),
        partitions=partitions,
        bounds=bounds,
        progress=progress,
    )


@dataclass(frozen=True)
class ByKey:
    """A page of one key's records. `partitions`: where was looked; `others`: where not, for now.

    `note` says it in a sentence when other partitions than Kafka's partitioner names had to be looked at.
    """

    page: Page
    partitions: list[int]
    others: list[int]
    note: str | None = None


def by_key(
    log: Log,
    topic: str,
    key: str | bytes,
    decoder: Decoder,
    place: Place | None = None,
    *,
    back: bool = True,
    until: Place | None = None,
    limit: int = LIMIT,
    everywhere: bool = False,
    bounds: Bounds = BOUNDS,
    progress: Progress | None = None,
) -> ByKey:
    """The key's records: where Kafka's partitioner puts it; else where librdkafka's does; else anywhere.

    To go on, give `Place(cursor=found.page.next)`: its partitions are the ones that are looked at.
    """
    with key_reader(log, topic, key) as (reader, example):
        if reader is None:
            keep, forms = Filter(key=key).compiled(decoder), _forms(key)
        else:
            keep, forms = None, list(reader.forms)
        numbers = log.partitions(topic)
        # Where a key of Avro belongs is decided by bytes that nobody has written here.
        unknown = is_avro(example) and not isinstance(key, bytes)
        guesses = _guesses(forms, numbers, place, everywhere or unknown)
        looked: list[int] = []
        left = bounds.scanned_max
        for guess in guesses:
            new = [p for p in guess if p not in looked]
            if not new:
                continue
            looked += new
            found = page(
                log,
                topic,
                place,
                back=back,
                until=until,
                limit=limit,
                keep=keep,
                reader=reader,
                partitions=new,
                bounds=replace(bounds, scanned_max=max(1, left)),
                progress=progress,
            )
            left -= found.scanned
            if found.records or found.is_cut:
                break
    found = replace(found, scanned=bounds.scanned_max - left)
    others = [p for p in numbers if p not in looked]
    return ByKey(found, sorted(looked), others, _note(found, guesses[0], looked, others))


def _note(found: Page, expected: list[int], looked: list[int], others: list[int]) -> str | None:
    at = sorted({each.partition for each in found.records})
    if not set(at) <= set(expected):
        return f"The key is in partition {_listed(at)}, not where Kafka's partitioner would put it."
    if not at and others:
        return f"Looked at partition {_listed(sorted(looked))} only."
    return None


def _forms(key: str | bytes) -> list[bytes]:
    return [key] if isinstance(key, bytes) else list(key_forms(key))


def _guesses(
    forms: list[bytes], numbers: list[int], place: Place | None, everywhere: bool
) -> list[list[int]]:
    if place is not None and place.cursor is not None:
        return [sorted(place.cursor.offsets)]
    if everywhere or len(numbers) == 1:
        return [numbers]
    count = len(numbers)
    return [
        sorted({by_murmur2(form, count) for form in forms}),
        sorted({by_crc32(form, count) for form in forms}),
        numbers,
    ]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
