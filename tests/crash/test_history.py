"""The judge of histories must notice what it is there to notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .history import Outcome, Read, judge_results, judge_sources, outcome


def record(offset: int, number: int, index: int, count: int = 2, name: str = "s.1") -> Read:
    return Read(0, offset, json.dumps([name, number, index, count]).encode())


WHOLE = [record(0, 1, 0), record(1, 1, 1)]
COMMITTED = Outcome(committed={("s.1", 1)})


def test_a_whole_transaction_is_right_whether_its_producer_knows_or_not() -> None:
    assert judge_sources(WHOLE, COMMITTED) == []
    assert judge_sources(WHOLE, Outcome(doubtful={("s.1", 1)})) == []
    assert judge_sources([], Outcome(doubtful={("s.1", 1)}, aborted={("s.1", 2)})) == []


@pytest.mark.parametrize(
    ("found", "known", "word"),
    [
        ([], COMMITTED, "lost"),
        (WHOLE[:1], COMMITTED, "torn"),
        (WHOLE[:1], Outcome(doubtful={("s.1", 1)}), "torn"),
        ([*WHOLE, record(2, 1, 1)], COMMITTED, "twice"),
        (WHOLE, Outcome(aborted={("s.1", 1)}), "aborted"),
        (WHOLE, Outcome(), "nobody began it"),
    ],
)
def test_what_is_wrong_with_the_sources_is_said(
    found: list[Read], known: Outcome, word: str
) -> None:
    (sentence,) = judge_sources(found, known)
    assert word in sentence


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([b"0:0", b"0:1"], []),
        ([b"0:0"], ["never came out"]),
        ([b"0:0", b"0:1", b"0:1"], ["2 times"]),
        ([b"0:0", b"0:1", b"0:7"], ["never went in"]),
    ],
)
def test_what_is_wrong_with_the_results_is_said(names: list[bytes], words: list[str]) -> None:
    results = [Read(0, number, name) for number, name in enumerate(names)]
    said = judge_results(WHOLE, results)
    assert len(said) == len(words)
    assert all(word in sentence for word, sentence in zip(words, said, strict=True))


def test_a_journal_that_ends_in_the_middle_leaves_its_transaction_in_doubt(tmp_path: Path) -> None:
    (tmp_path / "s.1.journal").write_text(
        "begin 1 2\ncommitted 1 2\nbegin 2 3\naborted 2 3\nbegin 3 1\n"
    )
    found = outcome(tmp_path, "s")
    assert (found.committed, found.aborted) == ({("s.1", 1)}, {("s.1", 2)})
    assert found.doubtful == {("s.1", 3)}
    assert found.total == 3
