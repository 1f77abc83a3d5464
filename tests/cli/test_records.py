"""`headwater produce`, `tail` and `replay`, as in a pipe, with good lines and bad ones."""

from __future__ import annotations

import itertools
import json
import os
import pty
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from headwater.cli.record_words import printable
from headwater.client.partitioner import by_murmur2
from headwater.testing import broker
from tests.cli.conftest import Ran
from tests.cli.inside import Inside

_numbers = itertools.count()


def sentences(ran: Ran) -> int:
    """How many were said of what went wrong; a slow disk has `produce` say that it waits."""
    return sum("not acknowledged yet" not in line for line in ran.err.splitlines())


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with broker() as running:
        yield running.bootstrap


@pytest.fixture
def run(capsys, monkeypatch, bootstrap: str) -> Callable[..., Ran]:
    monkeypatch.setenv("HEADWATER_BOOTSTRAP", bootstrap)
    return Inside(capsys, monkeypatch)


@pytest.fixture
def topic(run) -> Callable[..., str]:
    def make(*words: str) -> str:
        name = f"t{next(_numbers)}"
        assert run("topics", "create", name, *words).code == 0
        return name

    return make


def lines(ran: Ran) -> list[dict]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def everything(run, name: str, *words: str) -> list[dict]:
    return lines(run("tail", name, "--from", "beginning", "--no-follow", *words))


def test_lines_become_records_and_records_lines(run, topic):
    name = topic()
    assert run("produce", name, stdin=b"one\n\nthree").out == f"3 records are stored in {name}\n"
    assert [r["value"] for r in everything(run, name)] == ["one", "", "three"]
    assert everything(run, name)[0].keys() >= {"topic", "partition", "offset", "timestamp", "key"}


def test_a_separator_splits_key_and_value_and_null_is_a_tombstone(run, topic):
    name = topic()
    ran = run(
        "produce", name, "-K", r"\t", "--null", "-", "-H", "h=1", stdin=b"a\t1\nb\t-\nc\t2\t3\n"
    )
    assert ran.code == 0
    found = everything(run, name)
    assert [(r["key"], r["value"]) for r in found] == [("a", "1"), ("b", None), ("c", "2\t3")]
    assert found[0]["headers"] == [["h", "1"]]


def test_one_record_needs_no_stdin(run, topic):
    name = topic("--partitions", "3")
    assert (
        run("produce", name, "--value", "v", "--partition", "2").out == f"Stored in {name} at 2:0\n"
    )
    ran = run("produce", name, "--key", "k", "--tombstone", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["partition"] == by_murmur2(b"k", 3)
    assert {(r["key"], r["value"]) for r in everything(run, name)} == {(None, "v"), ("k", None)}


def test_what_tail_prints_produce_reads_back(run, topic):
    first, second = topic(), topic()
    values = [
        b"text",
        b"17",
        b'{"a":1}',
        b'"quoted"',
        b"\xff\xfe",
        b"",
        "grün".encode(),
        b"\0\0\0\0\1x",
    ]
    run("produce", first, stdin=b"\n".join(values))
    run("produce", first, "--key", "k", "--tombstone")
    run("produce", first, "--jsonl", stdin=b'{"key_hex": "ff", "value": 1, "headers": {"a": null}}')
    run("produce", first, "--jsonl", stdin=b'{"value": "v", "headers": [["b", {"hex": "fe"}]]}')
    copied = run("tail", first, "--from", "beginning", "--no-follow").out.encode()
    assert run("produce", second, "--jsonl", stdin=copied).code == 0
    one, other = everything(run, first), everything(run, second)
    for each in (*one, *other):
        del each["topic"]
    assert one == other
    assert one[4]["value_hex"] == "fffe"


@pytest.mark.parametrize(
    ("words", "stdin", "sentence"),
    [
        (["-K", ":"], b"a:1\nb\n", "line 2 has no key separator ':'; 1 record is stored in"),
        (["--jsonl"], b'{"value": 1}\n{"value": \n', "line 2 is not JSON"),
        (["--jsonl"], b'{"value": 1}\n\n[1]\n', "line 3 has neither a key nor a value"),
        (["--jsonl"], b'{"value_hex": "xyz"}', "line 1: non-hexadecimal number"),
        (["--jsonl"], b'{"value": 1, "headers": ["a"]}', "line 1: headers are pairs"),
        (["--jsonl"], b'{"value": 1, "partition": 7}', "line 1: t"),
        (["--jsonl"], b'{"value": 1, "timestamp": "soon"}', "line 1: 'soon' is neither"),
        (["nowhere.txt"], b"", "cannot read nowhere.txt: no such file or directory"),
    ],
)
def test_a_bad_line_is_named_and_what_was_before_it_is_stored(run, topic, words, stdin, sentence):
    ran = run("produce", topic(), *words, stdin=stdin)
    assert (ran.code, ran.out) == (1, "")
    assert sentence in ran.err
    assert sentences(ran) == 1


def test_a_record_that_the_topic_cannot_take_is_named_by_its_line(run, topic):
    compacted, small = (
        topic("--set", "cleanup.policy=compact"),
        topic("--set", "max.message.bytes=200"),
    )
    ran = run("produce", compacted, "--jsonl", stdin=b'{"key": "a", "value": 1}\n{"value": 2}\n')
    told = ran.err.splitlines()[-1]  # before it, on a slow machine, that a record is waited for
    assert (ran.code, told) == (
        1,
        "headwater: line 2: it has no key, and the topic is compacted; 1 record is stored in "
        f"{compacted}; give every record a key",
    )
    ran = run("produce", small, stdin=random.Random(1).randbytes(2000).hex().encode())
    assert ran.code == 1
    assert "line 1, or one sent with it, was refused: " in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["produce", "t", "--tombstone"], "--tombstone needs a --key"),
        (["produce", "t", "file", "--value", "v"], "give no file with them"),
        (["produce", "t", "-K", ":", "--jsonl"], "--key-separator goes with neither"),
        (["produce", "t", "-H", "x"], "'x' is not NAME=VALUE"),
        (["tail", "t", "--json", "--text"], "give one of --json, --text and --values"),
    ],
)
def test_words_that_do_not_go_together_are_said(run, words, sentence):
    ran = run(*words)
    assert ran.code == 2
    assert sentence in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tail", "nowhere"], "there is no topic 'nowhere'; headwater topics list"),
        (["produce", "nowhere", "--value", "v"], "there is no topic 'nowhere'"),
        (["replay", "nowhere", "also"], "there is no topic 'nowhere'"),
        (["tail", "TOPIC", "--from", "99"], "has no offset 99 yet; the next one will be 0:0"),
        (["tail", "TOPIC", "--from", "soon"], "'soon' is neither an offset nor a time; write"),
        (["tail", "TOPIC", "--partition", "5"], "has no partition 5; it has 0 to 0"),
        (["tail", "TOPIC", "--grep", "/(/"], "is no regular expression"),
        (["tail", "TOPIC", "--where", "x"], "'x' is no condition; write FIELD=VALUE"),
        (["replay", "TOPIC", "TOPIC"], "cannot be replayed into itself"),
    ],
)
def test_what_is_not_there_is_one_sentence(run, topic, words, sentence):
    name = topic()
    ran = run(*[name if word == "TOPIC" else word for word in words])
    assert (ran.code, ran.out) == (1, "")
    assert sentence in ran.err
    assert sentences(ran) == 1


def test_filters_and_the_last_few(run, topic):
    name = topic()
    rows = b"".join(
        b'%d:{"n": %d, "s": "%s"}\n' % (i % 3, i, b"ab"[i % 2 : i % 2 + 1]) for i in range(20)
    )
    run("produce", name, "-K", ":", stdin=rows)

    def shown(*words: str) -> list[int]:
        return [r["value"]["n"] for r in lines(run("tail", name, "--no-follow", *words))]

    assert shown("-n", "3") == [17, 18, 19]
    assert shown("--lines", "3") == shown("--last", "3") == [17, 18, 19]
    assert shown("-n", "2", "--key", "0") == [15, 18]
    assert shown("-n", "2", "--where", "s=b", "--where", "n!=19") == [15, 17]
    assert shown("--from", "18") == [18, 19]
    assert shown("--from", "0:3", "--until", "0:5") == [3, 4]
    assert shown("--from", "beginning", "--limit", "2", "--grep", r'/"n": 1\d/') == [10, 11]
    assert shown("--from", "-1h", "--until", "2") == [0, 1]
    assert shown("-n", "0") == []
    assert run("tail", name, "--no-follow", "-n", "1", "--values").out == '{"n": 19, "s": "b"}\n'


def test_text_is_on_one_line_and_does_not_steer_the_terminal(run, topic):
    name = topic()
    run("produce", name, "--key", "k", "--value", "a\x1b[2Jb\nc\x9b", "-H", "h=\x07")
    (line,) = run("tail", name, "--no-follow", "--text").out.splitlines()
    assert line.endswith("0:0  k  a\\x1b[2Jb\\nc\\x9b  h=\\x07")
    assert printable("grün ✓") == "grün ✓"


def test_a_replay_copies_a_range(run, topic):
    source, target = topic(), topic()
    run("produce", source, stdin=b"\n".join(b"%d" % i for i in range(10)))
    words = ["replay", source, target, "--from", "2", "--until", "5"]
    dry = run(*words, "--dry-run", "--json")
    assert json.loads(dry.out)["records"] == 3
    assert everything(run, target) == []
    assert run(*words).out == (
        f"3 records replayed from {source} into {target} (3 offsets looked at)\n"
    )
    assert [r["value"] for r in everything(run, target)] == ["2", "3", "4"]


# ---- in processes of their own ----------------------------------------------------------------------


def start(bootstrap: str, *words: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headwater", *words],
        env={**os.environ, "HEADWATER_BOOTSTRAP": bootstrap},
        text=True,
        stderr=subprocess.PIPE,
        **options,
    )


def test_a_tail_goes_on_until_ctrl_c_which_is_no_failure(run, topic, bootstrap):
    name = topic()
    run("produce", name, stdin=b"before\n")
    tail = start(bootstrap, "tail", name, stdout=subprocess.PIPE)
    try:
        assert tail.stdout is not None and tail.stderr is not None
        assert json.loads(tail.stdout.readline())["value"] == "before"
        run("produce", name, stdin=b"after\n")
        assert json.loads(tail.stdout.readline())["value"] == "after"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(60) == 0
        assert tail.stderr.read() == ""
    finally:
        tail.kill()
        tail.communicate()


def test_a_reader_that_leaves_ends_the_tail_quietly(run, topic, bootstrap):
    name = topic()
    run("produce", name, stdin=b"x" * 1000 + b"\n" + b"y\n" * 50_000)
    command = f"{sys.executable} -m headwater tail {name} --from beginning | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        env={**os.environ, "HEADWATER_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_terminal_gets_colours(run, topic, bootstrap):
    name = topic()
    run("produce", name, stdin=b"value\n")
    screen, terminal = pty.openpty()
    tail = start(bootstrap, "tail", name, "--no-follow", stdout=terminal)
    os.close(terminal)
    try:
        assert tail.wait(60) == 0
        shown = os.read(screen, 10_000).decode()
    finally:
        os.close(screen)
        tail.kill()
        tail.communicate()
    assert "\x1b[36m0:0\x1b[0m" in shown
    assert "value" in shown
