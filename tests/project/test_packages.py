"""A part whose packages are not installed is named with the command that installs them, and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.project import packages, spark_section
from headwater.project.file import Project
from headwater.project.parts import Part, parts_of
from headwater.project.processes.process import SupervisedPart

NOWHERE = {"no_such_package": "edges", "nor_this_one": "console"}


def test_what_is_missing_is_named_with_the_command_that_brings_it() -> None:
    assert packages.lacking({"json": "spark"}) is None
    assert packages.lacking({"json": "spark", **NOWHERE}) == (
        "needs the packages no_such_package, nor_this_one",
        "pip install 'headwater[console,edges]'",
    )


def test_a_part_that_lacks_a_package_is_not_started_and_not_tried_again(tmp_path: Path) -> None:
    keeper = SupervisedPart(
        Part("console", ("--version",), stops=0, needs=NOWHERE), tmp_path, tmp_path
    )
    said = keeper.step()
    assert said is not None and "pip install 'headwater[console,edges]'" in said
    assert keeper.step() is None and not keeper.is_there
    assert keeper.entry.state == "stopped" and keeper.entry.restarts == 0
    keeper.close()


def test_parts_need_what_their_databases_and_stores_need() -> None:
    project = Project(
        Path("headwater.toml"),
        pipelines=("pipelines",),
        captures={"shop": {"from": "postgresql://db/shop"}},
        views={"a": {"to": "redis://cache"}, "b": {"to": "sqlite:b.db"}},
    )
    needs = {part.name: part.needs for part in parts_of(project)}
    assert needs["broker"] == {}
    assert needs["capture shop"] == {"psycopg": "postgres"}
    assert {"pyspark", "redis"} <= needs["pipelines"].keys()


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*]", "local[2,3]", "spark://a:7077,b:7077", "yarn", "k8s://x"],
)
def test_where_spark_runs_is_taken_in_each_of_its_forms(master: str) -> None:
    assert spark_section.complaint(master) is None


def test_a_misspelt_master_is_answered_with_the_nearest() -> None:
    assert "did you mean 'local[2]'?" in (spark_section.complaint("lokal[2]") or "")
    assert spark_section.complaint("spark://host") is not None
    assert spark_section.complaint("local[0]") is not None
