"""State in files is replaced durably, in one way: the steps of `atomic_file`, and that all use it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pyarrow as pa
import pytest

import headwater
from headwater import atomic_file
from headwater.log.files import Files
from tests.compat.waiting import until

SOURCES = Path(headwater.__file__).parent
RENAMES = re.compile(
    r"os\.(replace|rename)\(|(?<!atomic_file)\.rename\("
    r"|\.replace\((self\.\w+|path|target|[^,()]*/[^,()]*)\)"
)
WITHOUT = {
    "atomic_file.py": "it is the way",
    "log/files.py": "the seam's own rename, whose callers sync",
    "log/checkpoints.py": "by the seam; undone by a crash, the next start does it again",
    "log/store.py": "by the seam",
    "log/swap.py": "by the seam",
    "broker/inspection/aside.py": "by the seam, and synced",
    "broker/inspection/surgery.py": "by the seam, and synced",
    "broker/groups/join.py": "a member's name, no file",
    "views/operate/pause.py": "a pause of minutes: a crash ends it anyway",
    "views/targets/staged_files.py": "rows of a batch that is staged again after a crash",
    "pipelines/java.py": "a cache, compared with what it must be at every start",
    "pipelines/maven.py": "a cache of jars",
    "pipelines/spark_home.py": "a cache of links",
    "testing/disk_faults.py": "by the seam, which it lets fail",
    "project/record.py": "how the parts are just now: after a crash there are none",
    "testing/faulty_disk.py": "a fake of the seam",
    "pipelines/class_archive.py": "a cache",
    "testing/rehearsal.py": "a clock for tests",
}
"""Where a name is changed in another way, and why that is right."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the disk, in order: `sync NAME` and `rename NAME`."""
    found: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        found.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def noted_replace(old: Path, new: Path) -> None:
        found.append(f"rename {Path(new).name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "fdatasync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return found


def held_records(folder: Path) -> str:
    from headwater.views import source_transactions

    held = source_transactions.WholeTransactions(
        lambda rows, batch: None, folder, "shop.transaction", ["a"], dict
    )
    held._hold(4, pa.table({"offset": [1]}), {})
    return "4.arrow"


def note_of_a_function(folder: Path) -> str:
    from headwater.views.targets.contract import Kind, Shape
    from headwater.views.targets.function import FunctionTarget

    shape = Shape("sent", pa.schema([("id", pa.int64())]), ("id",), Kind.UPSERT, 1, {})
    target = FunctionTarget(print, folder / "sent", "function:print", shape)
    target.create()
    target.claim()
    return "function.json"


def pending_batch(folder: Path) -> str:
    from headwater.views.tables import pending_batch
    from headwater.views.tables.store import Difference

    rows = pa.table({"id": [1]})
    pending_batch.write(folder, 3, {0: rows}, Difference(rows, rows))
    return pending_batch.FILE


def owner_of_a_folder(folder: Path) -> str:
    from headwater.views.targets.contract import Kind, Shape
    from headwater.views.targets.version_folders import OWNER, VersionFolders

    shape = Shape("sales", pa.schema([("id", pa.int64())]), ("id",), Kind.UPSERT, 1, {})
    VersionFolders(folder, shape, "search").own()
    return OWNER


def current_version(folder: Path) -> str:
    from headwater.views.targets.contract import Kind, Shape
    from headwater.views.targets.version_folders import CURRENT, VersionFolders

    shape = Shape("sales", pa.schema([("id", pa.int64())]), ("id",), Kind.UPSERT, 2, {})
    (folder / "v2").mkdir()
    VersionFolders(folder, shape, "search").show()
    return CURRENT


def note_of_a_checkpoint(folder: Path) -> str:
    from headwater.pipelines import checkpoints

    kept = checkpoints.Checkpoints(str(folder.parent), None)  # type: ignore[arg-type]
    kept.admit(folder.name, checkpoints.Shape(("headwater orders",), (), "append", "topic:x"))
    return checkpoints.NOTE


def promoted_position(folder: Path) -> str:
    from headwater.project.promote import job

    query = folder / "checkpoints" / "sales"
    (query / "offsets").mkdir(parents=True)
    (query / "headwater.json").write_text("{}")
    (query / "offsets" / "0").write_text("old-id")
    assert job.rename_topics(folder / "checkpoints", {"old-id": "new-id"}) == 1
    return "0"


def journal_of_a_move(folder: Path) -> str:
    from headwater.project.promote.journal import Journal

    journal = Journal.of(folder)
    journal.save()
    return journal.path.name


def file_of_the_log(folder: Path) -> str:
    Files().write_atomic(folder / "checkpoint", b"0")
    return "checkpoint"


KEEPERS = [
    held_records,
    note_of_a_function,
    pending_batch,
    owner_of_a_folder,
    current_version,
    note_of_a_checkpoint,
    promoted_position,
    journal_of_a_move,
    file_of_the_log,
]


@pytest.mark.parametrize("keep", KEEPERS, ids=lambda each: each.__name__)
def test_a_file_that_holds_state_is_synced_renamed_and_its_folder_synced(
    keep: Callable[[Path], str], steps: list[str], tmp_path: Path
) -> None:
    name = keep(tmp_path)
    (found,) = tmp_path.rglob(name)
    renamed = steps.index(f"rename {name}")
    if not found.is_symlink():
        assert f"sync {name}{atomic_file.SUFFIX}" in steps[:renamed], "its bytes, before its name"
    assert f"sync {found.parent.name}" in steps[renamed:], "the folder, after the name"


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "state"
    atomic_file.write(path, "old")

    def fail_halfway() -> None:
        with atomic_file.replacing(path) as file:
            file.write(b"half of the n")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail_halfway()
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_folders_that_are_made_are_synced_from_the_top(steps: list[str], tmp_path: Path) -> None:
    atomic_file.make_folder(tmp_path / "a" / "b")
    assert steps == [f"sync {tmp_path.name}", "sync a"]
    atomic_file.make_folder(tmp_path / "a" / "b")
    assert len(steps) == 2, "nothing was made"


def test_nothing_that_holds_state_is_renamed_in_another_way() -> None:
    found = {str(path.relative_to(SOURCES)) for path, _ in _renames()}
    assert found - set(WITHOUT) == set(), "use headwater.atomic_file, or say here why not"
    assert set(WITHOUT) - found == set(), "no longer needed here"


def _renames() -> Iterator[tuple[Path, str]]:
    for path in SOURCES.rglob("*.py"):
        for line in path.read_text().splitlines():
            if RENAMES.search(line):
                yield path, line


def test_a_file_is_read_to_its_end_though_it_comes_in_pieces(tmp_path: Path) -> None:
    """As some file systems give it: fewer bytes than asked for are not the end."""
    path = tmp_path / "pieces"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(atomic_file.read, path)
        with path.open("wb", buffering=0) as pipe:
            pipe.write(b"one ")
            until(lambda: ioctl(pipe, FIONREAD, bytes(4)) == bytes(4), "it to be read")
            if not found.done():
                pipe.write(b"two")
    assert found.result() == b"one two"
