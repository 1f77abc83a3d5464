"""`headwater check` and `headwater repair` as people and scripts call them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import fork_server
from tests.broker.inspection.world import World, batches_of, read_folder, spoil
from tests.broker.processes import broker_process


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.headwater(*words)


@pytest.fixture
def damaged(world: World) -> World:
    path = world.segments("orders")[1]
    position, header = batches_of(path)[1]
    spoil(path, position + 70)
    gone = range(header.base_offset, header.next_offset)
    kept = {
        at: row
        for at, row in world.uncommitted.items()
        if at[:2] != ("orders", 0) or at[2] not in gone
    }
    return world._replace(uncommitted=kept)


def names(data: Path) -> list[Path]:
    return sorted(data.rglob("*"))


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_folder_that_cannot_be_looked_at_is_one_sentence_and_exit_code_2(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, words in (
        (tmp_path / "none", "does not exist"),
        (file, "is a file"),
        (empty, "is no"),
    ):
        ran = run(command, str(path))
        assert (ran.returncode, ran.stdout) == (2, "")
        (sentence,) = ran.stderr.splitlines()
        assert words in sentence
    assert not list(empty.iterdir())


@pytest.mark.parametrize("words", [["check"], ["repair"], ["repair", "--yes"]])
def test_a_folder_in_use_is_refused_and_its_user_unharmed(tmp_path: Path, words: list[str]) -> None:
    data = tmp_path / "data"
    with broker_process(data) as process:
        ran = run(*words, str(data))
        assert ran.returncode == 2
        assert "is in use by a running broker" in ran.stderr
        assert process.process.poll() is None


def test_a_repair_that_cannot_write_its_report_says_so_and_takes_no_step(damaged: World) -> None:
    in_the_way = damaged.data / "set-aside"
    in_the_way.write_text("where the report belongs")
    before = {path: path.read_bytes() for path in names(damaged.data) if path.is_file()}
    ran = run("repair", "--yes", str(damaged.data))
    assert (ran.returncode, ran.stdout) == (2, "")
    (sentence,) = ran.stderr.splitlines()
    assert "report" in sentence and str(in_the_way) in sentence
    assert {path: path.read_bytes() for path in names(damaged.data) if path.is_file()} == before


def test_check_says_where_what_and_what_it_means(damaged: World) -> None:
    ran = run("check", str(damaged.data))
    assert ran.returncode == 1
    assert "DAMAGE  orders-0/" in ran.stdout
    assert "Means: readers get an error at these offsets" in ran.stdout
    assert "Repair: put the damaged bytes aside" in ran.stdout
    assert f"headwater repair {damaged.data}" in ran.stdout


def test_check_speaks_json(damaged: World) -> None:
    ran = run("check", str(damaged.data), "--json")
    found = json.loads(ran.stdout)
    assert found["right"] is False
    (finding,) = found["findings"]
    assert (finding["kind"], finding["severity"], finding["topic"]) == (
        "batch-damaged",
        "damage",
        "orders",
    )


def test_repair_changes_nothing_without_yes(damaged: World) -> None:
    before = names(damaged.data)
    ran = run("repair", str(damaged.data))
    assert ran.returncode == 1
    assert "Nothing was changed" in ran.stdout
    assert names(damaged.data) == before


def test_repair_with_yes_mends_and_reports(damaged: World) -> None:
    ran = run("repair", str(damaged.data), "--yes", "--json")
    assert ran.returncode == 0, ran.stdout
    outcome = json.loads(ran.stdout)
    assert (outcome["changed"], outcome["right"], outcome["failed"]) == (True, True, [])
    report = Path(outcome["set_aside"]) / "report.jsonl"
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert any("found" in line for line in lines)
    assert run("check", str(damaged.data)).returncode == 0
    again = run("repair", str(damaged.data), "--yes")
    assert "There was nothing to repair" in again.stdout
    assert read_folder(damaged.data) == damaged.uncommitted


def test_a_folder_of_apache_kafka_has_its_segments_looked_at(damaged: World) -> None:
    (damaged.data / "__headwater_catalogue-0").rename(damaged.data / "__cluster_metadata-0")
    ran = run("check", str(damaged.data), "--json")
    found = json.loads(ran.stdout)
    assert found["apache_kafka"] is True
    assert {each["kind"] for each in found["findings"]} == {"batch-damaged", "apache-kafka"}
    refused = run("repair", str(damaged.data), "--yes", "--json")
    assert json.loads(refused.stdout)["changed"] is False


def test_check_needs_no_right_to_write(damaged: World) -> None:
    """As on a read-only disk: nothing is opened for writing, no lock file is made."""
    (damaged.data / ".lock").unlink()
    before = names(damaged.data)
    assert run("check", str(damaged.data)).returncode == 1
    assert names(damaged.data) == before
