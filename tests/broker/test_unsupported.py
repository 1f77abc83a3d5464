"""The numbers and names in UNSUPPORTED.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headwater.broker
from headwater import regex
from headwater.broker import fetch_sessions, inbound, topic_admission, validation
from headwater.broker.bounds import METADATA_BYTES_MAX, TOPICS_MADE_MAX
from headwater.broker.settings import security
from headwater.record import validate
from headwater.wire import guard

TEXT = (Path(headwater.broker.__file__).parent / "UNSUPPORTED.md").read_text()
SENTENCES = re.sub(r"\s+", " ", TEXT)
WORDS = {2_000_000: "two million", 1_000_000: "a million", 16: "Sixteen"}
MIB = 1024**2


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (guard.ELEMENTS_MAX, "More than {} elements in all arrays of one request"),
        (TOPICS_MADE_MAX, "more than {} topics in one CreateTopics"),
        (METADATA_BYTES_MAX // 1024, "at most {} KiB of metadata"),
        (
            fetch_sessions.SESSIONS_BYTES_MAX // MIB,
            "Fetch sessions together remember at most {} MiB",
        ),
        (validation.ELEMENTS_MAX, "More than {} records and headers in a request"),
        (validate.HEADERS_MAX, "or {} headers in a batch"),
        (topic_admission.PARTITIONS_MAX, "At most {} partitions in one topic"),
        (regex.LENGTH_MAX, "At most {} characters"),
        (inbound.INBOX_MAX, "{} of them may be under way"),
    ],
)
def test_a_bound_is_told_as_it_is(number: int, sentence: str) -> None:
    assert sentence.format(WORDS.get(number, f"{number:,}")) in SENTENCES


def test_every_mechanism_that_is_offered_is_told_as_such() -> None:
    (offered,) = re.findall(r"Of SASL there are (.+?); (.+?) not offered", SENTENCES)
    families = {name.partition("-")[0] for name in security.MECHANISMS}
    assert set(re.findall(r"[A-Z]{4,}", offered[0])) == families
    assert not set(re.findall(r"[A-Z]{4,}", offered[1])) & families
