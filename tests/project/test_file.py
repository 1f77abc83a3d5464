"""headwater.toml is read as a whole: every mistake is told, with its line and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.capture.config import from_file, from_mapping
from headwater.format_version import NewerFormat
from headwater.project.file import Project, load
from headwater.project.mistakes import BadProject, Lines


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "headwater.toml"
    path.write_text(text)
    return path


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(BadProject) as raised:
        load(written(tmp_path, text))
    place = f"{tmp_path / 'headwater.toml'}:"
    return [line.removeprefix(place) for line in str(raised.value).splitlines()]


def test_an_empty_file_is_a_project_with_a_log_of_its_own(tmp_path: Path) -> None:
    project = load(written(tmp_path, ""))
    assert project == Project(path=tmp_path / "headwater.toml")
    assert project.address == "127.0.0.1:9092"


def test_everything_that_can_be_said_is_understood(tmp_path: Path) -> None:
    project = load(
        written(
            tmp_path,
            """
            [log]
            bootstrap = "kafka-1:9092,kafka-2:9092"
            [spark]
            master = "spark://one:7077"
            checkpoints = "hdfs://two/checkpoints"
            conf = { "spark.executor.cores" = 2, "spark.eventLog.enabled" = true }
            [pipelines]
            paths = ["queries", "more.py"]
            [capture.shop]
            from = "sqlite:shop.db"
            tables = ["orders"]
            [views.order_search]
            to = "search:data/orders"
            """,
        )
    )
    assert project.address == "kafka-1:9092,kafka-2:9092"
    assert project.conf == {"spark.executor.cores": "2", "spark.eventLog.enabled": "true"}
    assert project.pipelines == ("queries", "more.py")
    assert project.captures["shop"]["tables"] == ["orders"]
    assert project.views == {"order_search": {"to": "search:data/orders"}}


def test_a_folder_named_pipelines_needs_no_line(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    assert load(written(tmp_path, "")).pipelines == ("pipelines",)


def test_all_mistakes_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    told = mistakes(
        tmp_path,
        """\
[log]
dta = "data/log"
listen = "nowhere"

[sparc]
master = "local"

[capture.shop]
tables = ["orders"]

[views.search]
to = "data/search"
""",
    )
    assert told == [
        "5: there is no section [sparc]; did you mean 'spark'?",
        "2: [log] has no setting 'dta'; did you mean 'data'?",
        "3: listen = 'nowhere' is no HOST:PORT, as in \"127.0.0.1:9092\"",
        "8: [capture.shop] lacks `from = …`",
        "12: to = 'data/search' names no target, as in \"sqlite:data/views.db\"",
    ]


def test_a_mistake_in_braces_or_in_a_section_of_sections_has_its_line():
    lines = Lines(
        '[log]\n[console]\nread_only = true\ntokens = { reader = "" }\n[edges.bridges.m]\n'
    )
    asked = [
        ("console.tokens", None),
        ("edges.bridges", None),
        ("console", "tokens"),
        ("views", None),
    ]
    assert [lines.number(*each) for each in asked] == [4, 5, 4, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('log = "here"', "1: [log] is a section with lines of its own, not a value"),
        ("capture = 3", "1: write [capture.NAME], with a name of your own"),
        ('[capture]\nshop = "sqlite:x"', "2: write [capture.NAME] with `from = …` in it"),
        *(
            (
                f'[log]\nlisten = "127.0.0.1:{port}"',
                f"2: listen = '127.0.0.1:{port}' is no HOST:PORT, as in \"127.0.0.1:9092\"",
            )
            for port in ("99999", "65536", "0", "٣")
        ),
        (
            '[log]\nbootstrap = "kafka-1:9092, kafka-2:99999"',
            "2: bootstrap = 'kafka-1:9092, kafka-2:99999' is no HOST:PORT, or several with commas, as in "
            '"kafka-1:9092"',
        ),
        (
            '[console]\nlisten = "127.0.0.1:99999"',
            "2: listen = '127.0.0.1:99999' is no HOST:PORT, as in \"127.0.0.1:9092\"",
        ),
        (
            '[spark]\nmaster = "local[2]"\nremote = "sc://one:15002"',
            "3: `master` and `remote` are two places to run: give one",
        ),
        ("[pipelines]\npaths = []", '2: paths = [] is no list of texts, as in ["pipelines"]'),
        ("[log.settings]\nx = [1]", "1: settings is no table of names and values"),
    ],
)
def test_what_has_the_wrong_form_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert mistakes(tmp_path, text) == [told]


def test_a_log_is_either_ours_or_somebody_elses(tmp_path: Path) -> None:
    (told,) = mistakes(tmp_path, '[log]\ndata = "d"\nbootstrap = "kafka:9092"')
    assert told.startswith("3: `data` is for a log of this project")


def test_a_secret_that_the_environment_lacks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    text = '[capture.shop]\nfrom = "postgresql://app:${SHOP_PASSWORD}@db/shop"'
    (told,) = mistakes(tmp_path, text)
    assert told.startswith("1: the environment has no SHOP_PASSWORD")


def test_a_file_that_is_no_toml_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadProject, match=r"is not TOML: .*line 1"):
        load(written(tmp_path, "[log\nx = 1"))


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadProject) as raised:
        load(tmp_path / "headwater.toml")
    assert raised.value.hint == "make one: headwater init NAME"


def test_a_place_where_spark_cannot_run_is_found_in_the_file(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, '[spark]\nmaster = "lokal[2]"\n')
    assert found.startswith("2: ") and "did you mean 'local[2]'?" in found


def test_a_file_of_a_later_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert load(written(tmp_path, "format = 1\n")) == load(written(tmp_path, ""))
    with pytest.raises(NewerFormat, match="later version of headwater: it has format 2") as raised:
        load(written(tmp_path, "format = 2\n[whatever]\nis = 'new'\n"))
    assert "Install that version" in str(raised.value.hint)
    with pytest.raises(NewerFormat, match="'one', which is no version"):
        load(written(tmp_path, 'format = "one"\n'))


@pytest.mark.parametrize(
    "text",
    [
        '[console]\ntoken = "planted-secret"',
        '[console]\ntokens = { ann = "planted-secret" }',
        '[console]\ntokens = "planted-secret"',
        '[console]\noidc = "planted-secret"',
        '[log]\nsettings = ["planted-secret"]',
        '[spark]\nconf = "planted-secret"',
    ],
)
def test_a_secret_that_stands_in_the_file_is_not_said_again(tmp_path: Path, text: str) -> None:
    told = mistakes(tmp_path, text)
    assert told
    assert "planted-secret" not in " ".join(told)


@pytest.mark.parametrize("form", ["avro", "protobuf", "json-schema"])
@pytest.mark.parametrize(
    ("said", "registry"),
    [
        ('listen = "127.0.0.1:8181"', "http://127.0.0.1:8181"),
        ('registry = "https://schemas:8081"', "https://schemas:8081"),
    ],
)
def test_a_capture_of_typed_records_has_the_registry_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, said: str, registry: str
) -> None:
    monkeypatch.delenv("HEADWATER_REGISTRY", raising=False)
    text = f'[schemas]\n{said}\n[capture.shop]\nfrom = "sqlite:shop.db"\nformat = "{form}"\n'
    path = written(tmp_path, text)
    project = load(path)
    shown = from_mapping("shop", project.captures["shop"], project.address)
    assert shown.registry == registry
    assert shown == from_file(path, "shop", project.address)
