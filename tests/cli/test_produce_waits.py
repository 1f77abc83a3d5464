"""`headwater produce` while the disk refuses: it says what it waits for, and in the end what is missing."""

from __future__ import annotations

import errno
import math

from headwater import testing
from headwater.client import publisher
from tests.cli.inside import Inside


def test_it_says_what_it_waits_for_and_how_many_were_not_acknowledged(capsys, monkeypatch):
    monkeypatch.setattr(publisher, "TIMEOUT_S", 1.0)
    with testing.broker() as kafka:
        monkeypatch.setenv("HEADWATER_BOOTSTRAP", kafka.bootstrap)
        run = Inside(capsys, monkeypatch)
        assert run("topics", "create", "t").code == 0
        assert run("produce", "t", stdin=b"1\n2\n").code == 0
        kafka.faults.disk.fail("write", errno.ENOSPC, topic="t", name="*.log", times=math.inf)
        ran = run("produce", "t", stdin=b"3\n4\n5\n")
    assert ran.code != 0
    assert "3 records are not acknowledged yet" in ran.err
    assert "headwater status" in ran.err
    assert "3 records were not acknowledged" in ran.err
    assert ran.err.count("not acknowledged yet") == 1, "once is enough"
