"""What pages on data show, as text and HTML: nothing from a record gets into a page unescaped."""

from __future__ import annotations

import pytest

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.client.errors import BadRequest
from headwater.client.groups import Reset
from headwater.client.places import BEGINNING
from headwater.client.topics import Partition, Setting, Topic
from headwater.console import values
from headwater.console.pages.dead_letters.letter_form import editable
from headwater.console.pages.groups import group as group_page
from headwater.console.pages.groups.reset import reset_of
from headwater.console.pages.time_travel.markup import change_line, state_html
from headwater.console.pages.time_travel.slider import LISTED_MAX, at_time, window
from headwater.console.pages.topics.page import kept_for
from headwater.console.pages.topics.panel import value_html
from headwater.console.pages.topics.publish import draft_of
from headwater.console.pages.topics.search import wanted
from headwater.views.folding.state import Change

SCRIPT = "<script>alert(1)</script>"


def change(row: object, changed: dict[str, list[object]], op: str = "u", at: int = 0) -> Change:
    return Change(0, at, at * 1000, op, row, changed)


@pytest.mark.parametrize("form", ["auto", "json", "text"])
@pytest.mark.parametrize("data", [SCRIPT, f'{{"{SCRIPT}": "{SCRIPT}"}}', f'["{SCRIPT}"'])
def test_a_value_is_escaped_in_every_form(data, form):
    shown = Decoder().decode(data.encode())
    said, _ = value_html(data.encode(), shown, form)
    assert "<script>" not in said
    assert "&lt;script&gt;" in said


def test_a_long_value_is_cut_and_says_so():
    said = values.coloured('"' + "x" * (values.PANEL_CHARACTERS_MAX + 7) + '"')
    assert "9 more characters are not shown" in said
    assert values.one_line("a\n b" * 200, 20) == "a ba ba ba ba ba ba…"
    assert values.one_line("short") == "short"


def test_bytes_that_are_no_text_are_shown_as_such():
    data = bytes(range(250, 256)) + b"<&"
    said, note = value_html(data, Decoder().decode(data), "auto")
    assert "fa fb fc fd fe ff 3c 26" in said and "······&lt;&amp;" in said
    assert "shown as" in (value_html(data, Decoder().decode(data), "text")[1] or "")
    assert value_html(b"17", Decoder().decode(b"17"), "json")[1] == "This value is no JSON."
    assert "tombstone" in (value_html(None, Decoder().decode(None), "auto")[1] or "")
    assert note is None


def test_a_time_that_is_none_is_shown_as_its_number():
    assert values.moment(1_700_000_000_125) == "2023-11-14 22:13:20.125"
    assert values.moment(None) == values.moment(-1) == "–"
    assert values.moment(1 << 62) == str(1 << 62)


def test_a_state_marks_what_changed_and_escapes_all_of_it():
    said = state_html(change({"name": SCRIPT, "n": 2}, {"n": [1, 2], SCRIPT: [SCRIPT, None]}))
    assert "<script>" not in said
    assert said.count('class="hw-changed"') == 1
    assert said.count("hw-removed") == 1
    assert "No row: deleted." in state_html(change(None, {"n": [1, None]}, "d"))
    assert "<i>new</i>" in state_html(change("text", {"": [None, "text"]}, "put"))


def test_a_change_is_one_line():
    assert change_line(change({"n": 2, "m": 1}, {"n": [1, 2], "m": [None, 1]})) == "n: 1 → 2, m: 1"
    assert change_line(change(None, {"n": [1, None]}, "d")) == "deleted"
    assert change_line(change({"n": 2}, {})) == "nothing changed"


def test_a_moment_between_two_changes_has_the_state_of_the_first():
    #    0 s      2 s      1 s (a clock that went back)    5 s
    changes = [change({}, {}, at=at) for at in (0, 2, 1, 5)]
    assert [at_time(changes, ms) for ms in (0, 1999, 2000, 4999, 5000, 9000)] == [0, 0, 2, 2, 3, 3]


def test_a_list_of_changes_has_the_chosen_one_in_it():
    for count in (1, LISTED_MAX, LISTED_MAX + 1, 5000):
        for at in (0, 1, count // 2, count - 1):
            begin, end = window(count, min(at, count - 1))
            assert 0 <= begin <= min(at, count - 1) < end <= count
            assert end - begin == min(count, LISTED_MAX)


def test_a_chart_has_the_sum_and_the_partitions_that_are_most_behind():
    lags = {("orders", number): number for number in range(40)}
    lines = group_page.series_of([(1000, lags), (3000, lags)])
    assert [line["name"] for line in lines[:2]] == ["all partitions", "orders-28"]
    assert len(lines) == group_page.LINES_MAX + 1
    assert lines[0]["data"] == [[1000, 780], [3000, 780]]
    assert group_page.sentence([]) == "No samples yet: one is taken every two seconds."
    said = group_page.sentence([(0, {("o", 0): 5}), (30_000, {("o", 0): 2})])
    assert said == "Over the last 30 s: lag 2, at most 5, at least 2."
    past = [(n, {("o", 0): n}) for n in range(1000)]
    assert len(group_page.thinned(past)) <= group_page.POINTS_MAX
    assert group_page.thinned(past)[-1] == past[-1]


def test_how_long_a_topic_keeps_its_records_is_said_in_words():
    def kept(**settings: str) -> str:
        given = {name.replace("_", "."): Setting(value, True) for name, value in settings.items()}
        return kept_for(Topic("t", [Partition(0, 1, 0, 1)], given))

    assert kept(cleanup_policy="delete", retention_ms="604800000") == "7 days"
    assert kept(cleanup_policy="delete", retention_ms="-1") == "forever"
    assert kept(cleanup_policy="compact") == "latest of each key"
    both = kept(cleanup_policy="compact,delete", retention_ms="3600000", retention_bytes="1048576")
    assert both == "latest of each key, 60 min, 1.0 MiB per partition"


def test_what_is_typed_becomes_a_record_a_filter_or_a_reset():
    draft = draft_of("", '{"a":1}', "json", "trace=9\n\nempty\n", 1)
    assert (draft.key, draft.value, draft.partition) == (None, b'{"a":1}', 1)
    assert draft.headers == (("trace", b"9"), ("empty", None))
    assert draft_of("k", None, "text", "").value is None
    assert draft_of("k", "00 ff", "hex", "").value == b"\x00\xff"
    for value, form, headers in (("{", "json", ""), ("xyz", "hex", ""), ("", "text", "=9")):
        with pytest.raises(BadRequest):
            draft_of("k", value, form, headers)
    assert wanted("17", "exact") == Filter(key="17")
    assert wanted("a=1", "field") == Filter(where=("a=1",))
    assert wanted("x", "headers").parts == ("headers",)
    assert (reset_of("+5"), reset_of("-5")) == (Reset(shift=5), Reset(shift=-5))
    assert reset_of(" beginning ") == Reset(place=BEGINNING)
    assert reset_of("-10m").place is not None


def test_a_value_can_be_edited_without_loss():
    for data in (b"text", "ü".encode(), b"\xff\x00"):
        text, form = editable(data)
        assert draft_of("k", text, form, "").value == data
    assert editable(None) == ("", "text")
