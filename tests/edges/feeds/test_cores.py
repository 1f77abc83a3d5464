"""What changefeeds are made of, without a log: bodies, wires, boxes, memory, state, channels."""

from __future__ import annotations

import asyncio
import json

import pytest
from httpx_sse._decoders import SSEDecoder

from headwater.browse.decoder import Decoder
from headwater.client.errors import BadRequest, RequestRefused
from headwater.client.records import Record
from headwater.edges.feeds.bodies import of_record, of_row
from headwater.edges.feeds.channels import Channel
from headwater.edges.feeds.history import stretches
from headwater.edges.feeds.outbox import Outbox
from headwater.edges.feeds.recent import Fold, Recent
from headwater.edges.feeds.request import Choice, Remembering, read
from headwater.edges.feeds.wires import SSE, WS
from tests.edges.feeds.making import PLAIN, item, record


def events(*chunks: bytes) -> list[tuple[str, str, str]]:
    """As a client of SSE reads them: (event, id, data)."""
    decoder = SSEDecoder()
    lines = b"".join(chunks).decode().removesuffix("\n").split("\n")
    found = [decoder.decode(line) for line in lines]
    return [(each.event, each.id, each.data) for each in found if each is not None]


# ---- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"total":12345678901234567890.10}', '"value":{"total":12345678901234567890.10}'),
        (b'{\n "a": 1,\r\n "b": "x\\ny"}', '"value":{  "a": 1,   "b": "x\\ny"}'),
        (b"17", '"value":17'),
        (b"null", '"value":null}'),
        (b'"17"', '"value":"17"'),
        (b"tr", '"value":"tr"'),
        (b"1e999", '"value":"1e999"'),
        (b"plain text\nof two lines", '"value":"plain text\\nof two lines"'),
        (b"{not json", '"value":"{not json"'),
        (b"\xff\xfe", '"value_hex":"fffe"'),
        (None, '"value":null,"tombstone":true}'),
    ],
)
def test_a_value_is_shown_as_it_was_sent_on_one_line(value, shown):
    body = of_record(record(17, b"k", value), PLAIN).decode()
    assert shown in body
    assert "\n" not in body and "\r" not in body
    assert json.loads(body)["offset"] == 17


@pytest.mark.parametrize("sent", [b"null", b"17", b'{"a": 1}'])
def test_what_was_sent_as_text_is_shown_as_text(sent):
    told = (("content-type", b"Text/plain; charset=utf-8"),)
    found = of_record(Record("t", 0, 3, 0, None, sent, told), PLAIN)
    assert json.loads(found)["value"] == sent.decode()


def test_a_row_of_a_view_has_its_key_and_the_position_of_the_view():
    headers = (("headwater-position", b"orders:0=18"),)
    row = Record("v.changes", 0, 3, 0, b"17", b'{"id":17}', headers)
    assert json.loads(of_row(row, PLAIN)) == {
        "key": "17",
        "row": {"id": 17},
        "position": "orders:0=18",
    }
    gone = Record("v.changes", 0, 4, 0, b"17", None, headers)
    assert json.loads(of_row(gone, PLAIN))["row"] is None


# ---- wires ----------------------------------------------------------------------------------------


def test_a_client_of_sse_reads_what_was_written():
    chunks = [chunk for chunk, _ in SSE.records([item(0, value=b'{"a":1}'), item(1)])]
    chunks.append(SSE.event("live", {"records": 2}, "0=2")[0])
    (first, second, live) = events(SSE.greeting(), *chunks)
    assert (first[0], first[1]) == ("message", "0=1")
    assert json.loads(first[2])["value"] == {"a": 1}
    assert second[1] == "0=2"
    assert live == ("live", "0=2", '{"records":2}')


def test_a_heartbeat_moves_the_id_and_is_no_record():
    assert events(SSE.heartbeat("0=9")[0]) == [("heartbeat", "0=9", "{}")]


def test_many_records_are_chunks_of_whole_events():
    many = [item(n, value=b'"%s"' % (b"x" * 10_000)) for n in range(40)]
    chunks = [chunk for chunk, size in SSE.records(many) if size == len(chunk)]
    assert len(chunks) > 1
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    assert len(events(*chunks)) == 40


def test_a_message_of_a_socket_is_one_event():
    ((texts, size),) = WS.records([item(0), item(1)])
    assert [json.loads(text)["id"] for text in texts] == ["0=1", "0=2"]
    assert size == sum(map(len, texts))
    assert json.loads(WS.event("dropped", {"reason": "x"})[0][0]) == {
        "event": "dropped",
        "data": {"reason": "x"},
    }


# ---- a client's box -------------------------------------------------------------------------------


async def test_a_box_hands_out_in_order_and_waits_for_more():
    box = Outbox[bytes](100, lambda: 0.0)
    taking = asyncio.create_task(box.take())
    await asyncio.sleep(0)
    box.put(b"a", 1)
    box.put(b"b", 1)
    assert (await taking, await box.take()) == (b"a", b"b")


async def test_a_client_that_is_too_slow_is_dropped_and_told_why():
    box = Outbox[bytes](100, lambda: 0.0)
    box.put(b"x" * 60, 60)
    box.put(b"x" * 60, 60)
    assert box.dropped == "too slow: 120 bytes wait, more than 100"
    assert await box.take() is None
    assert box.size == 0
    box.put(b"late", 4)
    assert await box.take() is None


async def test_one_event_larger_than_the_bound_is_taken_where_nothing_else_waits():
    box = Outbox[bytes](100, lambda: 0.0)
    box.put(b"x" * 500, 500)
    assert await box.take() == b"x" * 500


def test_how_long_a_client_takes_nothing_is_known():
    now = [0.0]
    box = Outbox[bytes](100, lambda: now[0])
    now[0] = 50.0
    assert box.stalled_s() == 0.0  # nothing waits for it
    box.put(b"a", 1)
    now[0] = 60.0
    box.put(b"b", 1)
    assert box.stalled_s() == 10.0


# ---- memory of the last records -------------------------------------------------------------------


def test_recent_records_are_kept_within_their_bound_and_say_from_where():
    recent = Recent(item(0).size * 3)
    recent.begin({0: 0, 1: 5})
    recent.add([item(0), item(1), item(5, partition=1)])
    assert recent.covers({0: 0, 1: 5})
    recent.add([item(2), item(3)])  # pushes 0 and 1 out
    assert not recent.covers({0: 1, 1: 5})
    assert recent.covers({0: 2, 1: 5})
    found = [(each.record.partition, each.record.offset) for each in recent.behind({0: 3, 1: 5})]
    assert found == [(1, 5), (0, 3)]
    assert recent.behind({0: 4, 1: 6}) == []


def test_a_partition_that_nobody_reads_yet_is_not_covered():
    recent = Recent(1000)
    recent.begin({0: 0})
    assert not recent.covers({0: 0, 1: 0})


def test_what_is_read_at_once_is_shared_by_the_partitions_that_are_behind():
    assert stretches({0: 0, 1: 5, 2: 9}, {0: 100, 1: 8, 2: 9}, 20) == {0: (0, 10), 1: (5, 8)}
    assert stretches({0: 3}, {0: 3}, 20) == {}


# ---- the state of a topic -------------------------------------------------------------------------


def test_the_state_is_the_latest_record_of_each_key_in_the_order_of_the_log():
    fold = Fold("orders", 10_000)
    fold.add([item(0, b"a"), item(1, b"b"), item(2, b"a", b'{"n":2}'), item(3, b"b", None)])
    assert [each.record.offset for each in fold.items()] == [2]
    fold.add([item(4, b"c"), item(5, b"a")])
    assert [each.record.offset for each in fold.items()] == [4, 5]
    assert len(fold) == 2


def test_the_size_of_a_state_counts_what_is_in_it_now():
    fold = Fold("orders", 10_000)
    fold.add([item(0, b"a")])
    once = fold.size
    fold.add([item(n, b"a") for n in range(1, 9)])
    assert fold.size == once
    fold.add([item(10, b"a", None)])
    assert fold.size == 0


def test_a_topic_without_keys_has_no_state_and_one_too_large_is_refused():
    with pytest.raises(RequestRefused, match="without a key"):
        Fold("orders", 10_000).add([item(0)])
    with pytest.raises(RequestRefused, match="larger than"):
        Fold("orders", 100).add([item(0, b"a")])


# ---- words of a request ---------------------------------------------------------------------------


def test_a_condition_that_is_none_is_misunderstood_before_anything_is_read():
    with pytest.raises(BadRequest):
        read(where=["total>5"]).tests(PLAIN)
    with pytest.raises(BadRequest):
        read(grep="/(/").tests(PLAIN)
    with pytest.raises(BadRequest, match="from"):
        read(start="beginning", snapshot=True)
    with pytest.raises(BadRequest, match="longer"):
        read(key="x" * 5000)


def test_a_value_is_decoded_once_for_all_filters():
    class Counting(Decoder):
        count = 0

        def decode(self, data, topic=""):
            self.count += 1
            return super().decode(data, topic)

    counting = Counting()
    once = Remembering(counting)
    before = counting.count
    tests = [read(where=[f"a={n}"]).tests(once) for n in range(10)]
    one = record(0, value=b'{"a":3}')
    assert [test.fits(one) for test in tests].index(True) == 3
    assert counting.count - before == 1


# ---- channels -------------------------------------------------------------------------------------


def channel(is_state: bool = True, **words) -> Channel:
    tests = read(**words).tests(PLAIN)
    return Channel(tests, SSE, lambda each: of_record(each, PLAIN), is_state=is_state)


def values(found):
    return [(each.record.offset, each.record.value) for each in found]


def test_a_row_that_leaves_the_filter_is_told_as_gone():
    #      offset   0 Paris   1 Rome   2 Oslo   3 deleted     filter: city=Paris
    #      told     0         1 gone   -        -
    paris, rome = item(0, b"k", b'{"city":"Paris"}'), item(1, b"k", b'{"city":"Rome"}')
    oslo, gone = item(2, b"k", b'{"city":"Oslo"}'), item(3, b"k", None)
    changes = [(paris, None), (rome, paris), (oslo, rome), (gone, oslo)]
    chosen = channel(where=["city=Paris"]).chosen(changes, knows_before=True)
    assert values(chosen) == [(0, b'{"city":"Paris"}'), (1, None)]


def test_where_nobody_knows_what_was_before_a_row_is_told_as_gone_to_be_sure():
    rome = item(1, b"k", b'{"city":"Rome"}')
    found = channel(where=["city=Paris"]).chosen([(rome, None)], knows_before=False)
    assert values(found) == [(1, None)]
    found = channel(where=["city=Paris"], key="other").chosen([(rome, None)], knows_before=False)
    assert values(found) == []


def test_a_topic_of_events_is_only_filtered():
    rome = item(1, b"k", b'{"city":"Rome"}')
    found = channel(is_state=False, where=["city=Paris"]).chosen([(rome, None)], knows_before=False)
    assert values(found) == []


def test_all_clients_of_a_channel_share_the_bytes_and_one_that_is_full_harms_only_itself():
    made = Channel(Choice(), SSE, lambda each: b"", is_state=False)
    boxes = [Outbox(10**6, lambda: 0.0) for _ in range(999)]
    slow = Outbox(10, lambda: 0.0)
    made.boxes.update([*boxes, slow])
    for n in range(3):
        asyncio.run(made.publish([(item(n), None)], [*made.boxes], knows_before=False))
    assert slow.dropped is not None
    assert {box.size for box in boxes} == {boxes[0].size} != {0}
    firsts = {id(box._chunks[0][0]) for box in boxes}
    assert len(firsts) == 1
    made.beat("0=3")
    assert len({box.size for box in boxes}) == 1  # who has something to take needs no heartbeat
