"""The quick way into `headwater broker` means the same as typer's, and loads none of it."""

from __future__ import annotations

import subprocess
import sys

import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from headwater.cli.app import build
from headwater.cli.quick import BrokerWords, complaint, understand

VALUES = {
    "--data": st.sampled_from(["data/log", "a b", "/x=y", "ü"]),
    "--listen": st.sampled_from(["127.0.0.1:9092", "[::1]:0", "host:65535", "host:65536", "9092"]),
    "--advertise": st.sampled_from(["example.org:9092", ":1"]),
    "--durability": st.sampled_from(["disk", "os", "none"]),
    "--set": st.sampled_from(["a=b", "a=", "a=b=c", "=b", "ab"]),
    "--config": st.sampled_from(["server.properties", "-x"]),
    "--log-level": st.sampled_from(["debug", "info", "loud"]),
    "--other": st.just("x"),
}


@st.composite
def broker_words(draw: st.DrawFn) -> list[str]:
    words: list[str] = []
    for option in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=6)):
        value = draw(VALUES[option])
        words += draw(st.sampled_from([[option, value], [f"{option}={value}"]]))
    return words + draw(
        st.sampled_from([[], [], [], ["--data"], ["--help"], ["extra"], ["--insecure"]])
    )


def typer_understands(words: list[str]) -> BrokerWords | None:
    group = get_command(build(["broker"]))
    command = group.commands["broker"]
    try:
        params = command.make_context("broker", list(words)).params
    except (typer.TyperException, typer.Exit):
        return None
    meant = BrokerWords(**{**params, "assignments": tuple(params["assignments"])})
    return None if complaint(meant) else meant


@given(broker_words())
def test_what_the_quick_way_understands_typer_understands_alike(words):
    quick = understand(words)
    if quick is not None:
        assert quick == typer_understands(words)


@given(broker_words())
def test_what_it_does_not_understand_is_a_mistake_help_or_looks_like_an_option(words):
    if understand(words) is None and "-x" not in words:
        assert typer_understands(words) is None or "--help" in words


def test_the_last_word_wins_except_for_set():
    meant = understand(["--data", "a", "--set", "x=1", "--data=b", "--set=y=2"])
    assert meant == BrokerWords(data="b", assignments=("x=1", "y=2"))


def test_the_broker_command_loads_neither_typer_nor_what_typer_loads():
    program = (
        "import sys; from headwater.cli import main; "
        "main(['broker', '--listen', '127.0.0.1:0', '--config', 'missing']); "
        "print(*sorted({'typer', 'pydantic', 'rich', 'click', 'confluent_kafka'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "\n"
    assert "cannot read the settings file missing" in done.stderr
