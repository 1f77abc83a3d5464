"""A benchmark that nobody has run for a month still runs: its modules load, its options parse, its types are
checked by `make lint`, and `make soak` runs it, as small as it gets."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.figures import reading
from bench.figures.drawing import svg
from bench.freshness import goals

REPOSITORY = Path(__file__).parents[2]
BENCH = REPOSITORY / "bench"
FILES = sorted(BENCH.rglob("*.py"))
MODULES = [".".join(file.relative_to(REPOSITORY).with_suffix("").parts) for file in FILES]
COMMANDS = [
    module
    for file, module in zip(FILES, MODULES, strict=True)
    if ".ArgumentParser(" in file.read_text() and "\ndef main(" in file.read_text()
]
SMALL = {
    "broker": ["--quick"],
    "capture": ["--rows=5000", "--warm=500", "--single=500", "--bulk=2000", "--latency=100"],
    "edges": ["--quick", "--seconds=2", "--clients=50"],
    "events": ["--quick", "--seconds=1"],
    "freshness": ["--quick", "--seconds=5"],
    "nexmark": ["--quick", "--without-peers"],
    "processing": ["--quick", "--rows=20000", "--without-peers"],
    "schemas": ["--seconds=1", "--rows=2000", "--spark-rows=2000"],
    "spark": ["--quick", "--records=50000"],
    "views": ["--quick", "--rows=20000", "--batch=5000", "--changes=50000"],
}
WITHOUT_JSON = {"capture"}


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_a_benchmark_loads(module: str) -> None:
    importlib.import_module(module)


@pytest.mark.parametrize("module", COMMANDS)
def test_every_benchmark_knows_its_options(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_the_types_of_benchmarks_are_checked() -> None:
    import tomllib

    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mypy"]
    assert "bench" in settings["files"]


def test_every_benchmark_has_a_small_form() -> None:
    assert set(SMALL) == {file.parent.name for file in BENCH.glob("*/__main__.py")} - {"figures"}


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SMALL)
def test_a_small_form_runs(name: str, tmp_path: Path) -> None:
    """Whatever it finds: goals are for a machine that does nothing else."""
    output = [] if name in WITHOUT_JSON else [f"--json={tmp_path / 'figures.json'}"]
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *SMALL[name], *output],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def test_the_figures_show_every_goal_of_fresh_views_that_was_measured_and_name_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out, *measured = goals.GOALS
    rows: dict[str, Any] = {}
    for goal in measured:
        about = {"measured": "2026-01-01 00:00 UTC", "load_before": 0.1, "figures": {}}
        rows.setdefault(goal.row, about)["figures"][goal.figure] = (goal.bound or 2) * 1.1
    document = {"machine": {"date": "2026-01-01", "load_before": 0.1}, "rows": rows}
    (tmp_path / "freshness.json").write_text(json.dumps(document))
    monkeypatch.setattr(reading, "RESULTS", tmp_path)
    chapter = reading.freshness()
    assert f"Not measured: {left_out.what}." in chapter.about
    groups = [group for figure in chapter.figures for group in figure.groups]
    assert len(groups) == len(measured)
    verdicts = [group.verdict for group in groups if group.verdict]
    expected = [goal.at_least for goal in measured if goal.bound is not None]
    assert (verdicts.count("met"), verdicts.count("missed")) == (
        expected.count(True),
        expected.count(False),
    )
    assert all(svg(figure) for figure in chapter.figures)


def test_the_figures_show_what_schemas_cost_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"per_s": 1000.0, "p50_ms": 1.0, "p99_ms": 2.0}
    rates = {
        "encode: fastavro": 7.0,
        "encode: headwater": 14.0,
        "Spark reads: by registry, ten columns": 9.0,
        "Spark reads: bytes, then from_avro": 3.0,
        "Spark reads: values as they are": 12.0,
    }
    results = {"schema by id": request, **{name: {"per_s": rate} for name, rate in rates.items()}}
    document = {"machine": {"date": "2026-01-01", "load_before": 0.1}, "results": results}
    (tmp_path / "schemas.json").write_text(json.dumps(document))
    monkeypatch.setattr(reading, "RESULTS", tmp_path)
    chapter = reading.schemas()
    groups = {group.label: group for figure in chapter.figures for group in figure.groups}
    assert [figure.name for figure in chapter.figures] == [
        "schemas-rate",
        "schemas-p50",
        "schemas-p99",
    ]
    assert groups["encode"].ratio == 2 and groups["Spark reads"].ratio == 3
    assert all(svg(figure) for figure in chapter.figures)
    document["results"]["schema by id"]["p90_ms"] = 1.5
    (tmp_path / "schemas.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="p90_ms"):
        reading.schemas()
