"""Which places are on this machine, and what a task says of a folder that it does not see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.local_path import local_path
from headwater.pipelines.cluster import look, make_folder


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/mnt/shared/x", "/mnt/shared/x"),
        ("file:/x", "/x"),
        ("file:///a b", "/a b"),
        ("FILE:/x", "/x"),
        ("hdfs:///x", None),
        ("s3a://bucket/x", None),
        ("abfss://c@a.dfs.core.windows.net/x", None),
        ("dbfs:/x", None),
    ],
)
def test_an_address_is_here_or_elsewhere(address: str, path: str | None):
    assert local_path(address) == (None if path is None else Path(path))


def test_a_task_reads_what_the_driver_wrote_and_writes_itself(tmp_path: Path):
    token = tmp_path / ".token"
    (said,) = look(str(token), iter([0]))
    assert said.endswith("does not see what the driver writes there")
    token.write_text(token.name)
    assert list(look(str(token), iter([0, 1]))) == ["", ""]
    assert {each.name for each in tmp_path.iterdir()} == {".token", ".token.0", ".token.1"}


@pytest.mark.parametrize(
    ("master", "mode"), [("local[2]", 0o700), (None, 0o700), ("spark://HOST:7077", 0o755)]
)
def test_nobody_else_looks_into_checkpoints_where_all_processes_are_ours(
    tmp_path: Path, master: str | None, mode: int
):
    folder, before = tmp_path / "data" / "checkpoints", os.umask(0o022)
    try:
        make_folder(folder, master)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == mode
