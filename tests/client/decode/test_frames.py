"""JSON values as lines: which are one object, and nothing that shifts the rows of others."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.decode import frames

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
pieces = st.sampled_from(
    [b"{", b"}", b'"', b"\\", b"\n", b" ", b"a", b"[", b"1", b"\xc3", b"\xa4", b"\xed\xa0\x80"]
)


def framed(values: list[bytes | None]) -> tuple[list[bytes], list[int]]:
    ends = np.cumsum([0, *(len(each or b"") for each in values)]).astype(np.int32)
    data = np.frombuffer(b"".join(each or b"" for each in values) or b"\0", np.uint8)
    there = np.array([each is not None for each in values], np.uint8)
    text, starts, verdicts = frames.frame(data, ends, there)
    lines = [bytes(text[a:b]) for a, b in itertools.pairwise(starts)]
    return lines, verdicts.tolist()


@given(st.lists(st.dictionaries(st.text(), anything, max_size=4), max_size=5), st.booleans())
def test_objects_pass_whole_on_one_line_each(objects: list[Any], pretty: bool) -> None:
    values: list[bytes | None] = [
        json.dumps(each, indent=2 if pretty else None, ensure_ascii=not pretty).encode(
            "utf-8", "replace"
        )
        for each in objects
    ]
    lines, verdicts = framed(values)
    assert verdicts == [frames.GOOD] * len(objects)
    assert [json.loads(line) for line in lines] == [json.loads(each or b"") for each in values]
    assert all(line.count(b"\n") == 1 for line in lines)


@given(st.lists(pieces, max_size=12).map(b"".join))
def test_what_passes_is_utf8_and_ends_with_its_object(value: bytes) -> None:
    lines, (verdict,) = framed([value])
    if verdict != frames.GOOD:
        assert not lines
        return
    text = value.decode().strip(" \n")
    assert text.startswith("{") and text.endswith("}")
    try:
        found, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return  # the parser will say so
    assert end == len(text) and isinstance(found, dict)


def test_each_fault_has_its_name_and_its_neighbours_are_not_harmed() -> None:
    good = b'{"a": "}{"}'
    faults = {
        b"": frames.NO_OBJECT,
        b"[]": frames.NO_OBJECT,
        b'{"a": 1': frames.BREAKS_OFF,
        b'{"a": "': frames.BREAKS_OFF,
        b"{} {}": frames.MORE_BEHIND,
        b"{}}": frames.MORE_BEHIND,
        b'{"a": "\n"}': frames.CONTROL_CHARACTER,
        b'{"a": "\xff"}': frames.NO_UTF8,
    }
    for fault, name in faults.items():
        lines, verdicts = framed([good, fault, None, good])
        assert verdicts == [frames.GOOD, name, frames.GOOD, frames.GOOD]
        assert lines == [good + b"\n"] * 2
        assert frames.REASONS[name]
