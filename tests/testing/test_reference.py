"""Which tests `make test` asks of Apache Kafka: the first of each file, where headwater is asked the same."""

from __future__ import annotations

from tests.reference import WHOLE, repeated
from tests.spreading import part_of

FILE = "tests/compat/test_a.py"


def test_of_each_file_the_first_is_asked_of_kafka_and_all_of_headwater() -> None:
    names = ["one[kafka]", "one[headwater]", "two[kafka-gzip]", "two[headwater-gzip]"]
    asked = [f"{file}::test_{name}" for file in (FILE, "tests/b.py") for name in names]
    assert repeated(asked) == {f"{FILE}::test_two[kafka-gzip]", "tests/b.py::test_two[kafka-gzip]"}
    alike = [f"{FILE}::test_{name}[apache kafka]" for name in "ab"]
    assert repeated([*alike, *(each.replace("apache kafka", "headwater") for each in alike)]) == {
        alike[1]
    }


def test_what_is_asked_of_kafka_alone_stays() -> None:
    alone = [f"{FILE}::test_{name}" for name in ("one[kafka]", "two[kafka-python]", "three[kafka]")]
    assert repeated(alone) == set()
    whole = [
        f"{WHOLE[0]}::test_{name}[{server}]" for name in "ab" for server in ("kafka", "headwater")
    ]
    assert repeated(whole) == set()


def test_the_two_servers_are_compared_in_two_parts() -> None:
    assert part_of(f"{FILE}::test_one[kafka-1]") != part_of(f"{FILE}::test_one[headwater-1]")
