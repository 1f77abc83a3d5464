"""Settings from words and files: Kafka's properties format, and a line number for what is not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.properties import SettingsFileError, parse_assignments, read_settings


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_comments_blank_lines_and_both_separators_are_read(tmp_path):
    path = written(tmp_path, "# one\n! two\n\n a.b = c d \nx:y=z\nurl=http://h:1\nempty=\n")
    assert read_settings(path) == {"a.b": "c d", "x": "y=z", "url": "http://h:1", "empty": ""}


def test_a_backslash_continues_a_line(tmp_path):
    path = written(tmp_path, "users = ann;\\\n        bob;\\\n        # eve\nnext=1\nlast=a\\")
    assert read_settings(path) == {"users": "ann;bob;# eve", "next": "1", "last": "a"}


def test_a_name_given_twice_keeps_its_last_value(tmp_path):
    assert read_settings(written(tmp_path, "a=1\na=2\n")) == {"a": "2"}


def test_a_line_that_is_no_setting_is_named_by_its_number(tmp_path):
    path = written(tmp_path, "a=1\n\nnonsense\n")
    with pytest.raises(SettingsFileError, match=r"line 3 of .* is not a setting: 'nonsense'"):
        read_settings(path)
    with pytest.raises(SettingsFileError, match="line 1 of"):
        read_settings(written(tmp_path, "=value\n"))


def test_a_missing_file_a_folder_and_bytes_that_are_not_text_are_refused(tmp_path):
    with pytest.raises(SettingsFileError, match="no such file"):
        read_settings(tmp_path / "missing")
    with pytest.raises(SettingsFileError, match="is a directory"):
        read_settings(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsFileError, match="not UTF-8 text"):
        read_settings(tmp_path / "binary")


def test_assignments_keep_everything_after_the_first_equals_sign():
    assert parse_assignments(["a=b=c", " d = e ", "f="]) == {"a": "b=c", "d": "e", "f": ""}


@pytest.mark.parametrize("word", ["", "a", "=", "=b", " =b"])
def test_a_word_without_a_name_or_a_value_is_refused(word):
    with pytest.raises(ValueError, match="is not of the form name=value"):
        parse_assignments([word])


def test_a_backslash_with_a_blank_behind_it_continues_nothing(tmp_path):
    path = written(tmp_path, "a=x\\ \nb=1\n")
    assert read_settings(path) == {"a": "x\\", "b": "1"}


NAMES = st.from_regex(r"[a-z]([a-z.]{0,20}[a-z])?", fullmatch=True)
PLAIN = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=30)


@given(st.dictionaries(NAMES, PLAIN.filter(lambda text: not text.endswith("\\"))))
def test_any_settings_written_as_lines_come_back(tmp_path_factory, given_settings):
    text = "".join(f"{name}={value}\n" for name, value in given_settings.items())
    path = written(tmp_path_factory.mktemp("settings"), text)
    assert read_settings(path) == {n: v.strip() for n, v in given_settings.items()}


@given(st.text())
def test_any_text_is_read_or_refused_with_a_sentence(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("settings") / "any"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(SettingsFileError):
        read_settings(path)
