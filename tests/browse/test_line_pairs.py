"""Two texts side by side: every line once, in order, as few changed as can be, however long they are."""

from __future__ import annotations

import random
from difflib import SequenceMatcher, unified_diff

from headwater.browse.line_pairs import ADDED, CHANGED, GONE, SAME, Pair, side_by_side, unified


def test_lines_that_are_changed_added_and_gone_are_marked():
    old = ["{", "a", "b", "c", "}"]
    assert side_by_side(old, ["{", "a", "x", "c", "d", "}"]) == [
        Pair("{", "{", SAME), Pair("a", "a", SAME), Pair("b", "x", CHANGED),
        Pair("c", "c", SAME), Pair(None, "d", ADDED), Pair("}", "}", SAME),
    ]  # fmt: skip
    assert side_by_side(old, ["{", "c", "}"])[1:3] == [Pair("a", None, GONE), Pair("b", None, GONE)]
    assert side_by_side([], []) == []
    assert side_by_side([], ["a"]) == [Pair(None, "a", ADDED)]


def test_every_line_stands_once_and_as_many_are_the_same_as_others_find():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(300):
        old, new = (chance.choices("abcd", k=chance.randrange(12)) for _ in range(2))
        pairs = side_by_side(old, new)
        assert [each.old for each in pairs if each.old is not None] == old, seed
        assert [each.new for each in pairs if each.new is not None] == new, seed
        assert all((each.old == each.new) or each.mark != SAME for each in pairs), seed
        same = sum(each.mark == SAME for each in pairs)
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        assert same >= sum(each.size for each in blocks), (seed, old, new)


def test_texts_of_hundreds_of_thousands_of_lines_are_shown_too():
    """Lines that are all the same, all others, or one of two by chance: a stranger's schemas."""
    chance = random.Random(5)
    count = 200_000
    for old, new in (
        (["0,"] * count, ["0,"] * (count - 3) + ["1,", "2,", "0,"]),
        (["0,"] * count, ["1,"] * count),
        (chance.choices("01", k=count), chance.choices("01", k=count)),
    ):
        pairs = side_by_side(old, new)
        assert [each.old for each in pairs if each.old is not None] == old
        assert [each.new for each in pairs if each.new is not None] == new
        assert sum(1 for _ in unified(pairs)) <= 4 * count


def test_what_differs_is_printed_as_others_do():
    lines = [str(number) for number in range(40)]
    for old, new in (
        (lines, lines),
        (lines, [*lines[:5], "x", "y", *lines[7:30], *lines[31:]]),
        (lines, ["x", *lines[:9], "y", *lines[12:], "z"]),
        (["a"], ["b"]),
        ([], ["a"]),
        (["a", "b"], []),
    ):
        expected = list(unified_diff(old, new, lineterm=""))[2:]
        assert list(unified(side_by_side(old, new))) == expected
