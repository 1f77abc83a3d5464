"""The numbers that may only fall: what is counted, what a rise and a fall say, what is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.tidy.__main__ import ROOT, compare, write
from tools.tidy.measures import MEASURES, Numbers, measured, module_of, of_module
from tools.tidy.ratchet import fallen, parse, risen, risen_sums, text_of

UNTIDY = '''"""A module."""
from typing import Any
from headwater.log import files


class Keeper:
    def told(self, value: Any) -> dict[str, Any]:
        try:
            return value  # type: ignore[no-any-return]
        except (ValueError, Exception):
            raise
        except OSError:
            raise


def long() -> None:
    """Any number of lines."""
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working tree with one untidy module, which only its neighbour imports."""
    folder = tmp_path / "src" / "headwater" / "views"
    folder.mkdir(parents=True)
    (folder / "view_telling.py").write_text(UNTIDY + "    pass\n" * 300, encoding="utf-8")
    (folder / "target.py").write_text("from headwater.views import view_telling\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(
        "```python\nimport headwater as hw\nfrom headwater.log.files import Files\n```\n"
        "```text\nimport headwater.log\n```\n"
    )
    return tmp_path


def numbers(**measures: int) -> Numbers:
    found: Numbers = {name: {} for name in MEASURES}
    for measure, number in measures.items():
        found[measure.replace("_", "-")] = {"src/headwater/a.py": number}
    return found


def test_everything_is_counted_and_says_where(tree: Path) -> None:
    path = "src/headwater/views/view_telling.py"
    assert measured(tree) == {
        "file-lines": {path: 57},
        "function-lines": {path: 262},
        "broad-except": {path: 1},
        "type-ignore": {path: 1},
        "any": {path: 2},
        "private-word": {path: 2},
        "folder-prefix": {path: 1},
        "shared-prefix": {},
        "participle": {path: 1},
        "one-importer": {path: 1},
        "private-import": {"docs/page.md": 1},
        "spark-test": {},
    }


def test_three_files_with_one_prefix_should_be_a_folder(tree: Path) -> None:
    folder = tree / "src" / "headwater" / "broker"
    folder.mkdir()
    for name in ("disk_space", "disk_threads", "disk", "k00_a", "k00_b", "k00_c"):
        (folder / f"{name}.py").write_text("")
    assert measured(tree)["shared-prefix"] == {}
    (folder / "disk_faults.py").write_text("")
    assert measured(tree)["shared-prefix"] == {"src/headwater/broker": 3}


def test_tests_that_start_streams_are_counted_by_folder_but_for_those_of_soak(tree: Path) -> None:
    folder = tree / "tests" / "views"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(
        "def test_one(headwater_test):\n    pass\n"
        "@pytest.mark.soak\ndef test_long(headwater_test):\n    pass\n"
        "def test_plain():\n    pass\ndef helper(desk):\n    pass\n"
    )
    (folder / "test_b.py").write_text("def test_two(desk, tmp_path):\n    pass\n")
    (folder / "test_c.py").write_text(
        "pytestmark = [pytest.mark.soak]\ndef test_three(desk):\n    pass\n"
    )
    assert measured(tree)["spark-test"] == {"tests/views": 2}


def test_a_second_importer_or_one_elsewhere_is_none_of_it(tree: Path) -> None:
    (tree / "src" / "headwater" / "cli.py").write_text("import headwater.views.view_telling\n")
    assert measured(tree)["one-importer"] == {}


def test_a_folder_is_no_module_that_its_neighbour_could_take_in(tree: Path) -> None:
    folder = tree / "src" / "headwater" / "views"
    (folder / "targets").mkdir()
    (folder / "targets" / "__init__.py").write_text("")
    (folder / "target.py").write_text("from headwater.views import targets\n")
    assert measured(tree)["one-importer"] == {}


def test_a_page_may_import_a_package_of_its_reader(tree: Path) -> None:
    page = tree / "docs" / "page.md"
    page.write_text("```python\nimport headwater_jsonfile\nfrom headwater import view\n```\n")
    assert measured(tree)["private-import"] == {}
    page.write_text("```python\nimport headwater.log.files\nfrom headwater.log import x\n```\n")
    assert measured(tree)["private-import"] == {"docs/page.md": 2}


@pytest.mark.parametrize(
    ("handler", "number"),
    [
        ("except Exception", 1),
        ("except", 1),
        ("except (OSError, BaseException)", 1),
        ("except OSError", 0),
        ("except (OSError, ValueError) as error", 0),
    ],
)
def test_only_broad_handlers_count(tmp_path: Path, handler: str, number: int) -> None:
    path = tmp_path / "headwater" / "a.py"
    path.parent.mkdir()
    path.write_text(f"try:\n    pass\n{handler}:\n    pass\n")
    assert of_module(path)["broad-except"] == number


def test_words_are_found_in_names_of_any_style_and_not_within_words(tmp_path: Path) -> None:
    path = tmp_path / "headwater" / "a.py"
    path.parent.mkdir()
    path.write_text("class ShareKeeper: ...\ndef open_doors(): ...\ndef bookkeepers(): ...\n")
    assert of_module(path)["private-word"] == 2


def test_a_package_is_named_by_its_folder() -> None:
    assert module_of(Path("/x/src/headwater/log/files.py")) == "headwater.log.files"
    assert module_of(Path("/x/src/headwater/log/__init__.py")) == "headwater.log"


def test_a_number_that_rises_fails_and_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(numbers(any=3), numbers(any=4)) == 1
    said = capsys.readouterr().err
    assert "rises:  src/headwater/a.py: Any in an annotation: 4, was 3 [any]" in said
    assert "make tidy" in said


def test_a_number_that_falls_fails_until_it_is_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(numbers(any=3), numbers(any=2)) == 1
    assert "falls:  src/headwater/a.py: 2, was 3 [any]" in capsys.readouterr().err
    path = tmp_path / "numbers.txt"
    assert write(path, numbers(any=2), rise=False) == 0
    assert compare(parse(path.read_text()), numbers(any=2)) == 0


def test_what_moves_to_another_file_may_be_written_and_what_rises_may_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "numbers.txt"
    write(path, numbers(any=3), rise=False)
    moved = {**numbers(), "any": {"src/headwater/b.py": 3}}
    assert list(risen(numbers(any=3), moved)) and list(fallen(numbers(any=3), moved))
    assert write(path, moved, rise=False) == 0
    assert write(path, numbers(any=4), rise=False) == 1
    assert "any would rise from 3 to 4" in capsys.readouterr().err
    assert parse(path.read_text()) == moved
    assert write(path, numbers(any=4), rise=True) == 0


def test_what_is_written_is_read_again() -> None:
    for each in (numbers(), numbers(any=1, broad_except=2)):
        assert parse(text_of(each)) == each
        assert list(risen_sums(each, each)) == []


def test_the_command_prints_the_sums_of_this_tree() -> None:
    words = [sys.executable, "-m", "tools.tidy", "--sums"]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(ran.stdout.splitlines()) == len(MEASURES)
    assert "Any in an annotation" in ran.stdout
