"""Nexmark's events: persons, auctions and bids, 1 : 3 : 46, as JSON in columns.

Event number n is a person, an auction or a bid by n mod 50; all of it is a function of the seed and n.
The proportions, the skew and the sizes are those of nexmark/nexmark:

    hot auctions   every second bid is for the first of the last hundred auctions
    hot bidders    three of four bids are by the second of the last hundred persons
    hot sellers    three of four auctions are of the first of the last hundred persons
    leads          some bids and auctions name an auction or a person that comes a little later
    disorder       within groups of `disorder` events, times are in another order than the events

A record's key is the text of the auction's id (auctions and bids) or of the person's, its time the event's.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.nexmark.text import (
    Bytes,
    below,
    chance,
    literal,
    literals,
    put,
    put_digits,
    put_letters,
    put_number,
    put_one_of,
    put_time,
)

START_MS = 1_767_225_600_000
EPOCH, PERSONS, AUCTIONS = 50, 1, 3
PERSON, AUCTION, BID = "nexmark.person", "nexmark.auction", "nexmark.bid"
TOPICS = (PERSON, AUCTION, BID)
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
_HOT_OF, _IN_FLIGHT, _ACTIVE, _LEAD = 100, 100, 1000, 10
_CHANNELS = 10_000
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 520, 1400, 420
"""More than any event of the kind has."""


@dataclass(frozen=True)
class Plan:
    """Which events: the same plan is the same events."""

    events: int
    seed: int = 1
    rate: int = 10_000
    """Events in a second of event time."""
    disorder: int = 1000
    """In groups of so many events times are shuffled; 1: none are."""
    start_ms: int = START_MS


class Columns(NamedTuple):
    """Some records of a topic, in the order of the log: row i is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: NDArray[np.int64]
    data: Bytes
    keys: NDArray[np.int64]
    times_ms: NDArray[np.int64]


def pieces(plan: Plan, size: int, first: int = 0) -> Iterator[dict[str, Columns]]:
    """All events from the first on, so many at a time, by topic."""
    begins = range(first, plan.events, size)
    with ThreadPoolExecutor(1) as maker:  # the next piece, while the caller has this one
        coming = deque[Future[dict[str, Columns]]]()
        for begin in begins:
            coming.append(maker.submit(between, plan, begin, min(begin + size, plan.events)))
            if len(coming) > 1:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def between(plan: Plan, begin: int, end: int) -> dict[str, Columns]:
    kinds = (
        (PERSON, _persons, _PERSON_BYTES, PERSONS),
        (AUCTION, _auctions, _AUCTION_BYTES, AUCTIONS),
        (BID, _bids, _BID_BYTES, EPOCH - PERSONS - AUCTIONS),
    )
    most = (end - begin) // EPOCH + 2
    return {
        topic: _made(plan, begin, end, write, most * share, width)
        for topic, write, width, share in kinds
    }


def _made(
    plan: Plan, begin: int, end: int, write: Callable[..., Any], rows: int, width: int
) -> Columns:
    data = np.empty(rows * width, np.uint8)
    offsets, keys, times = (
        np.zeros(rows + 1, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
    )
    timing = (plan.start_ms, plan.rate, plan.disorder)
    count = write(plan.seed, begin, end, timing, data, offsets, keys, times)
    return Columns(offsets[: count + 1], data[: offsets[count]], keys[:count], times[:count])


# ---- numbers ----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _time_ms(event: int, timing: tuple[int, int, int]) -> int:
    start_ms, rate, disorder = timing
    place = event % disorder
    return start_ms + (event - place + place * 953 % disorder) * 1000 // rate


@njit(cache=True, nogil=True)
def _last_person(event: int) -> int:
    return event // EPOCH


@njit(cache=True, nogil=True)
def _last_auction(event: int) -> int:
    epoch, place = event // EPOCH, event % EPOCH
    if place < PERSONS:
        return epoch * AUCTIONS - 1
    return epoch * AUCTIONS + min(place - PERSONS, AUCTIONS - 1)


@njit(cache=True, nogil=True)
def _some_person(seed: int, event: int, field: int) -> int:
    people = _last_person(event) + 1
    active = min(people, _ACTIVE)
    return people - active + below(seed, event, field, active + _LEAD)


@njit(cache=True, nogil=True)
def _some_auction(seed: int, event: int, field: int) -> int:
    last = max(_last_auction(event), 0)
    first = max(last - _IN_FLIGHT, 0)
    return first + below(seed, event, field, last - first + 1 + _LEAD)


@njit(cache=True, nogil=True)
def _price(seed: int, event: int, field: int) -> int:
    part = (chance(seed, event, field) >> np.uint64(11)) * (1.0 / (1 << 53))
    return round(10.0 ** (part * 6.0) * 100.0)


@njit(cache=True, nogil=True)
def _extra(seed: int, event: int, field: int, average: int) -> int:
    spread = average // 5
    return average - spread + below(seed, event, field, 2 * spread)


# ---- texts ------------------------------------------------------------------------------------------

_ID, _NAME, _EMAIL, _AT = (
    literal('{"id":'),
    literal(',"name":"'),
    literal('","emailAddress":"'),
    literal("@"),
)
_CARD, _CITY, _STATE = (
    literal('.com","creditCard":"'),
    literal('","city":"'),
    literal('","state":"'),
)
_TIME, _QUOTED_TIME = literal(',"dateTime":"'), literal('","dateTime":"')
_MORE, _END = literal('","extra":"'), literal('"}')
_ITEM, _DESCRIPTION = literal(',"itemName":"'), literal('","description":"')
_INITIAL, _RESERVE = literal('","initialBid":'), literal(',"reserve":')
_EXPIRES, _SELLER, _CATEGORY = (
    literal('","expires":"'),
    literal('","seller":'),
    literal(',"category":'),
)
_MORE_AFTER_NUMBER = literal(',"extra":"')
_AUCTION, _BIDDER, _BID_PRICE = literal('{"auction":'), literal(',"bidder":'), literal(',"price":')
_CHANNEL, _URL = literal(',"channel":"'), literal('","url":"https://www.nexmark.com/')
_CHANNEL_NUMBER, _PAGE = literal("channel-"), literal("/item.htm?query=1")
_CHANNEL_ID = literal("&channel_id=")
_FIRST, _FIRST_ENDS = literals(
    *(
        "Peter",
        "Paul",
        "Luke",
        "John",
        "Saul",
        "Vicky",
        "Kate",
        "Julie",
        "Sarah",
        "Deiter",
        "Walter",
    )
)
_LAST, _LAST_ENDS = literals(
    *("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
)
_CITIES, _CITY_ENDS = literals(
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_STATES, _STATE_ENDS = literals("AZ", "CA", "ID", "OR", "WA", "WY")
_HOT, _HOT_ENDS = literals("Google", "Facebook", "Baidu", "Apple")
_SPACE = literal(" ")


@njit(cache=True, nogil=True)
def _persons(seed, begin, end, timing, data, offsets, keys, times):  # type: ignore[no-untyped-def]
    at, row = 0, 0
    for event in range(begin + -begin % EPOCH, end, EPOCH):
        number, time_ms = _last_person(event) + FIRST_ID, _time_ms(event, timing)
        at = put_number(data, put(data, at, _ID), number)
        at = put_one_of(data, put(data, at, _NAME), _FIRST, _FIRST_ENDS, below(seed, event, 1, 11))
        at = put_one_of(data, put(data, at, _SPACE), _LAST, _LAST_ENDS, below(seed, event, 2, 9))
        at = put_letters(data, put(data, at, _EMAIL), 7, seed, event, 3)
        at = put(data, put_letters(data, put(data, at, _AT), 5, seed, event, 4), _CARD)
        for part in range(4):
            if part:
                at = put(data, at, _SPACE)
            at = put_digits(data, at, below(seed, event, 5 + part, 10_000), 4)
        at = put_one_of(data, put(data, at, _CITY), _CITIES, _CITY_ENDS, below(seed, event, 9, 10))
        at = put_one_of(
            data, put(data, at, _STATE), _STATES, _STATE_ENDS, below(seed, event, 10, 6)
        )
        at = put_time(data, put(data, at, _QUOTED_TIME), time_ms)
        at = put_letters(data, put(data, at, _MORE), _extra(seed, event, 11, 120), seed, event, 12)
        at = put(data, at, _END)
        keys[row], times[row] = number, time_ms
        row += 1
        offsets[row] = at
    return row


@njit(cache=True, nogil=True)
def _auctions(seed, begin, end, timing, data, offsets, keys, times):  # type: ignore[no-untyped-def]
    at, row = 0, 0
    for event in range(begin, end):
        if not PERSONS <= event % EPOCH < PERSONS + AUCTIONS:
            continue
        number, time_ms = _last_auction(event) + FIRST_ID, _time_ms(event, timing)
        if below(seed, event, 1, 4) > 0:
            seller = _last_person(event) // _HOT_OF * _HOT_OF
        else:
            seller = _some_person(seed, event, 2)
        initial = _price(seed, event, 3)
        horizon_ms = _IN_FLIGHT * EPOCH // AUCTIONS * 1000 // timing[1]
        expires_ms = time_ms + 1 + below(seed, event, 4, max(horizon_ms * 2, 1))
        at = put_number(data, put(data, at, _ID), number)
        at = put_letters(data, put(data, at, _ITEM), 5 + below(seed, event, 5, 15), seed, event, 6)
        at = put_letters(
            data, put(data, at, _DESCRIPTION), 20 + below(seed, event, 8, 80), seed, event, 9
        )
        at = put_number(data, put(data, at, _INITIAL), initial)
        at = put_number(data, put(data, at, _RESERVE), initial + _price(seed, event, 18))
        at = put_time(data, put(data, at, _TIME), time_ms)
        at = put_time(data, put(data, at, _EXPIRES), expires_ms)
        at = put_number(data, put(data, at, _SELLER), seller + FIRST_ID)
        at = put_number(
            data, put(data, at, _CATEGORY), FIRST_CATEGORY + below(seed, event, 19, CATEGORIES)
        )
        at = put(data, at, _MORE_AFTER_NUMBER)
        at = put_letters(data, at, _extra(seed, event, 20, 350), seed, event, 21)
        at = put(data, at, _END)
        keys[row], times[row] = number, time_ms
        row += 1
        offsets[row] = at
    return row


@njit(cache=True, nogil=True)
def _bids(seed, begin, end, timing, data, offsets, keys, times):  # type: ignore[no-untyped-def]
    at, row = 0, 0
    for event in range(begin, end):
        if event % EPOCH < PERSONS + AUCTIONS:
            continue
        time_ms = _time_ms(event, timing)
        if below(seed, event, 1, 2) > 0:
            auction = _last_auction(event) // _HOT_OF * _HOT_OF
        else:
            auction = _some_auction(seed, event, 2)
        if below(seed, event, 3, 4) > 0:
            bidder = _last_person(event) // _HOT_OF * _HOT_OF + 1
        else:
            bidder = _some_person(seed, event, 4)
        at = put_number(data, put(data, at, _AUCTION), auction + FIRST_ID)
        at = put_number(data, put(data, at, _BIDDER), bidder + FIRST_ID)
        at = put_number(data, put(data, at, _BID_PRICE), _price(seed, event, 5))
        at = put(data, at, _CHANNEL)
        hot = below(seed, event, 6, 2) > 0
        channel = below(seed, event, 7, 4 if hot else _CHANNELS)
        if hot:
            at = put_one_of(data, at, _HOT, _HOT_ENDS, channel)
        else:
            at = put_number(data, put(data, at, _CHANNEL_NUMBER), channel)
        at = put_letters(data, put(data, at, _URL), 5, seed, channel, 90)
        for part in range(2):
            data[at] = 47
            at = put_letters(data, at + 1, 5, seed, channel, 91 + part)
        at = put(data, at, _PAGE)
        if not hot and below(seed, channel, 93, 10) > 0:
            at = put_number(data, put(data, at, _CHANNEL_ID), below(seed, channel, 94, 1 << 31))
        at = put_time(data, put(data, at, _QUOTED_TIME), time_ms)
        at = put_letters(data, put(data, at, _MORE), _extra(seed, event, 8, 50), seed, event, 9)
        at = put(data, at, _END)
        keys[row], times[row] = auction + FIRST_ID, time_ms
        row += 1
        offsets[row] = at
    return row
