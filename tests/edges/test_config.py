"""[edges] of headwater.toml: every mistake is told at once, with its line and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.edges.config import Limits, of_project, read
from headwater.edges.doctor import examine
from headwater.project.file import load
from headwater.project.mistakes import BadProject
from headwater.project.parts import parts_of
from headwater.project.ports import free_port


def project_with(folder: Path, text: str) -> Path:
    path = folder / "headwater.toml"
    path.write_text(text)
    return path


def test_what_is_not_said_has_a_default(tmp_path: Path):
    edges = of_project(load(project_with(tmp_path, "[edges]\n")))
    assert edges.listen == "127.0.0.1:8086"
    assert edges.origins == () and edges.limits == Limits() and not edges.bridges


def test_every_mistake_is_told_with_its_line(tmp_path: Path):
    path = project_with(
        tmp_path,
        '[edges]\nlisten = 7\norigins = ["shop.example/a"]\nhoks = 1\n'
        "[edges.limits]\nbody_byte = 1\nclients = -1\n[edges.hooks]\npay = 3\n",
    )
    with pytest.raises(BadProject) as told:
        of_project(load(path))
    lines = str(told.value).splitlines()
    assert [line.split(": ")[0].rpartition(":")[2] for line in lines] == ["1"] * 3 + ["5"] * 2 + [
        "8"
    ]
    assert "did you mean 'hooks'" in lines[0]
    assert "did you mean 'body_bytes'" in lines[3]


@pytest.mark.parametrize("address", ["here", "127.0.0.1:99999", "127.0.0.1:0"])
def test_an_address_where_nobody_can_be_found_is_a_mistake(address: str):
    edges, mistakes = read({"listen": address})
    assert mistakes == [("edges", f"listen = {address!r} is no HOST:PORT")]
    assert edges.listen == "127.0.0.1:8086"


def test_edges_that_are_no_section_are_a_mistake_of_the_file(tmp_path: Path):
    with pytest.raises(Exception, match="section with lines of its own"):
        load(project_with(tmp_path, "edges = 1\n"))


def test_headwater_up_runs_them_where_the_file_has_the_section(tmp_path: Path):
    project = load(project_with(tmp_path, '[edges]\nlisten = "127.0.0.1:9999"\n'))
    part = parts_of(project)[-1]
    assert part.name == "edges" and part.page_at == "127.0.0.1:9999"
    assert "edges" not in [part.name for part in parts_of(load(project_with(tmp_path, "")))]


def test_the_doctor_says_which_secret_is_missing_and_whether_the_address_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told = f'[edges]\nlisten = "127.0.0.1:{free_port()}"\n[edges.tokens.shop]\n'
    project = load(project_with(tmp_path, told + 'secret = "${SHOP_TOKEN}"\nwrite = ["orders"]\n'))
    monkeypatch.delenv("SHOP_TOKEN", raising=False)
    (lacking,) = examine(project)
    assert not lacking.ok and "export SHOP_TOKEN" in lacking.sentence
    monkeypatch.setenv("SHOP_TOKEN", "x" * 32)
    assert all(each.ok for each in examine(project))
    (bad,) = examine(load(project_with(tmp_path, "[edges.limits]\nclients = -1\n")))
    assert not bad.ok and ":1: " in bad.sentence


def test_limits_are_numbers():
    edges, mistakes = read({"limits": {"requests_per_second": 2.5, "body_bytes": True}})
    assert edges.limits.requests_per_second == 2.5
    assert [section for section, _ in mistakes] == ["edges.limits"]
