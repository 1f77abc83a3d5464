"""One record of a table that a join cannot read must not stop it for good."""

from __future__ import annotations

import headwater as hw
from headwater.processing import joins

TRUNCATE = '{"op":"t","before":null,"after":null}'
NO_NUMBER = '{"id":2,"name":5,"n":"x"}'


def test_a_join_goes_on_after_a_truncate_and_after_a_bad_value(headwater_test):
    test = headwater_test

    @hw.view("joined", key="e")
    def joined():
        table = joins.changes("people", schema="id BIGINT, name STRING, n INT", key="id")
        return joins.enrich(hw.stream("events", schema="e STRING, id BIGINT"), table).select(
            "e", "name"
        )

    test.send("people", {"id": 1, "name": "ann", "n": 1}, key="id")
    test.send("events", {"e": "a", "id": 1})
    test.run(joined)
    for number, poison in enumerate((NO_NUMBER, TRUNCATE)):
        test.send("people", poison)
        test.send("events", {"e": f"b{number}", "id": 1})
        test.run()
        assert len(test.rows(joined)) == 2 + number
