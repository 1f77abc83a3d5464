"""The command as a whole: help, version, exit codes, and one sentence for every mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater import __version__
from headwater.cli import main
from headwater.cli.app import COMMANDS
from headwater.client.errors import BadOption, BadRequest
from headwater.errors import HeadwaterError
from tests.cli.inside import Inside


def test_help_names_every_command(headwater):
    ran = headwater("--help")
    assert ran.code == 0
    listed = ran.out.split("Commands:")[1].split()
    assert set(COMMANDS) <= set(listed)


def test_no_words_print_the_help(headwater):
    ran = headwater()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == headwater("--help").out


@pytest.fixture
def inside(capsys, monkeypatch) -> Inside:
    """In this process, where there are many words to try."""
    monkeypatch.setenv("COLUMNS", "80")
    return Inside(capsys, monkeypatch)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_fits_eighty_columns(inside, command):
    for option in ("--help", "-h"):
        ran = inside(command, option)
        assert ran.code == 0
        assert ran.out.startswith(f"Usage: headwater {command}")
        assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_version_is_the_package_version(headwater):
    assert headwater("--version").out == f"headwater {__version__}\n"


def test_the_installed_script_is_the_same_command():
    script = Path(sys.executable).with_name("headwater")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"headwater {__version__}\n"


@pytest.mark.parametrize("kind", [BadOption, BadRequest])
def test_an_errors_hint_is_said_once(kind, capsys, monkeypatch):
    def run(words):
        raise kind("no such colour", hint="say red")

    monkeypatch.setattr("headwater.cli.app.run", run)
    assert main(["topics"]) == 1
    assert capsys.readouterr().err == "headwater: no such colour; say red\n"


@pytest.mark.parametrize(
    ("sentence", "hint", "said"),
    [
        ("it is full", "make room", "it is full; make room"),
        ("It is full.", "Make room.", "It is full. Make room."),
        ("it is full", None, "it is full"),
    ],
)
def test_a_hint_follows_the_end_of_a_sentence(sentence, hint, said):
    assert HeadwaterError(sentence, hint=hint).with_hint == said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["brokr"], "no such command 'brokr'. Did you mean 'broker'?; see: headwater --help"),
        (["broker", "extra"], "got unexpected extra argument(s) (extra)"),
        (["broker", "--lissten", "x"], "no such option: --lissten"),
        (["broker", "--data"], "option '--data' requires an argument; see: headwater broker"),
        (["broker", "--listen", "9092"], "'9092' is not HOST:PORT, for example 127.0.0.1:9092"),
        (["broker", "--listen", "::1:9092"], "needs brackets round its IPv6 address"),
        (["broker", "--listen", "localhost:70000"], "is not HOST:PORT"),
        (["broker", "--advertise", ":9092"], "is not HOST:PORT"),
        (["broker", "--durability", "none"], "'none' is not one of disk, os"),
        (["broker", "--log-level", "loud"], "'loud' is not one of debug, info, warning, error"),
        (["broker", "--set", "num.partitions"], "'num.partitions' is not of the form name=value"),
        (["demo", "--records", "many"], "--records"),
        (["demo", "--durability", "none"], "'none' is not one of disk, os"),
        (["topics", "create"], "missing argument 'NAME'; see: headwater topics create --help"),
        (["topics", "create", "x", "--set", "y"], "'y' is not of the form name=value"),
        (["topics", "create", "x", "--partitions", "-2"], "should be greater than or equal to 1"),
        (["topics", "create", "x", "--partitions", "0"], "--partitions"),
        (["topics", "alter", "x", "--partitions", "100001"], "--partitions"),
        (["topics", "alter", "x"], "nothing to alter: give --partitions, --set or --unset"),
    ],
)
def test_words_that_are_not_understood_get_one_sentence_and_code_2(inside, words, sentence):
    ran = inside(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("headwater: ")
    assert sentence in ran.err
    assert "--help" in ran.err


def test_a_failure_gets_one_sentence_and_code_1(headwater):
    ran = headwater("broker", "--config", "missing.properties")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "headwater: cannot read the settings file missing.properties: no such file or directory; "
        "give --config the path of a file with name=value lines\n"
    )


def test_a_reader_that_goes_away_is_not_an_error():
    command = f"{sys.executable} -m headwater settings --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[\n"
