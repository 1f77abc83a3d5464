"""The console in headwater.toml: its section is checked, becomes a part, and starts as the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.pipeline_words import understood
from headwater.console.forms.views import view_command
from headwater.console.server import Entry, settled
from headwater.project.file import load
from headwater.project.mistakes import BadProject
from headwater.project.new_project import TEMPLATE
from headwater.project.parts import parts_of
from headwater.project.roles import Role
from headwater.secrets import Environment, MissingSecret


def written(folder: Path, console: str) -> Path:
    path = folder / "headwater.toml"
    path.write_text(f'[log]\ndata = "data/log"\n{console}')
    return path


def test_a_project_without_the_section_has_no_console(tmp_path: Path) -> None:
    project = load(written(tmp_path, ""))
    assert project.console is None
    assert [part.name for part in parts_of(project)] == ["broker"]


def test_the_section_alone_is_enough(tmp_path: Path) -> None:
    (part,) = [p for p in parts_of(load(written(tmp_path, "[console]\n"))) if p.name == "console"]
    assert part.words == ("console", "--project", "headwater.toml")
    assert part.page_at == "127.0.0.1:8765"
    assert part.stops == 0


def test_a_secret_in_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadProject, match=r'4: token is no "\$\{NAME\}" and no .*: secrets come from'
    ):
        load(written(tmp_path, '[console]\ntoken = "river"\n'))
    with pytest.raises(BadProject, match="4: read_only = 'yes' is neither true nor false"):
        load(written(tmp_path, '[console]\nread_only = "yes"\n'))


def test_the_file_says_where_it_listens_who_may_look_and_what_they_may_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = '[console]\nlisten = "127.0.0.1:7000"\nread_only = true\ntoken = "${RIVER_TOKEN}"\n'
    path = written(tmp_path, lines)
    monkeypatch.chdir(tmp_path)  # and back again afterwards: `settled` moves into the project
    with pytest.raises(MissingSecret, match="RIVER_TOKEN"):
        settled(path, None, {}, default_bootstrap="127.0.0.1:9092")
    monkeypatch.setenv("RIVER_TOKEN", "river")
    given = settled(tmp_path, None, {}, default_bootstrap="127.0.0.1:1")
    assert (given.listen, given.read_only) == ("127.0.0.1:7000", True)
    (token,) = given.entry.tokens
    assert (token.text, token.role, given.entry.grants) == (b"river", Role.ADMINISTRATOR, None)
    assert given.bootstrap == "127.0.0.1:9092"


def test_the_file_gives_tokens_and_users_their_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "[console]\nsession_minutes = 30\n[console.tokens]\n"
        'reader = "${POND}"\n[console.users]\nann = "operator"\n'
    )
    written(tmp_path, lines)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POND", "pond")
    entry = settled(tmp_path, None, {}, default_bootstrap="127.0.0.1:1").entry
    assert [(each.text, each.role) for each in entry.tokens] == [(b"pond", Role.READER)]
    assert entry.grants is not None and entry.grants.role_of("ann") is Role.OPERATOR
    assert (entry.lifetime_s, entry.asks, Entry().asks) == (1800, True, False)
    assert [each.role for each in entry.also("sea").tokens] == [Role.ADMINISTRATOR, Role.READER]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('[console.users]\nann = "boss"\n', "gives 'ann' no role: it is one of reader, operator"),
        ("[console.users]\n", "is no section with lines as in ann"),
        ('[console.tokens]\nboss = "${X}"\n', "has 'boss', which is no role"),
        ('[console.tokens]\nreader = "pond"\n', 'has for reader no "'),
        ("[console]\nsession_minutes = 0\n", "session_minutes = 0 is no number from 1 to"),
    ],
)
def test_a_role_that_is_none_is_a_mistake_in_the_file(
    tmp_path: Path, lines: str, complaint: str
) -> None:
    with pytest.raises(BadProject) as caught:
        load(written(tmp_path, lines))
    assert complaint in str(caught.value)


def test_an_address_alone_means_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "[console]\n")
    monkeypatch.chdir(tmp_path)
    given = settled(None, "127.0.0.1:5", {}, default_bootstrap="127.0.0.1:9092")
    assert (given.project, given.bootstrap) == (None, "127.0.0.1:5")


def test_a_new_project_has_a_console_and_its_commands_are_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(TEMPLATE)
    project = load(TEMPLATE / "headwater.toml")
    assert project.console is not None
    words = view_command(
        project, "127.0.0.1:5", "verify", "order_list", ("--repair",), Environment()
    )
    assert words[:4] == ("verify", "order_list", "pipelines", "--repair")
    assert words[-2:] == ("--to", "order_list=sqlite:data/views.db")
    # The Spark that it names is the project's: its application can do it, and no other is started.
    given = understood([], [], master=words[words.index("--master") + 1])
    assert (given.asked_master, given.own_settings) == (project.master, False)
