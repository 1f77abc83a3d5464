"""Secrets by name: from the environment and from files, never empty, and not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import secrets
from headwater.console.server import settled
from headwater.errors import HeadwaterError
from headwater.pipelines.checkpoints import Shape
from headwater.project.file import load
from headwater.project.parts import parts_of

ADDRESS = "postgresql://app:{}@db/shop"


def test_a_name_stands_for_what_the_environment_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss")
    assert secrets.expand(ADDRESS.format("${SHOP_PASSWORD}")) == ADDRESS.format("p@ss")
    assert secrets.expand("sqlite:shop.db") == "sqlite:shop.db"


def test_a_file_is_read_each_time_without_its_last_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    for secret in ("first", "second"):
        file.write_text(f"{secret}\n")
        assert secrets.expand(f"file:{file}") == secret
        assert secrets.expand(ADDRESS.format(f"${{file:{file}}}")) == ADDRESS.format(secret)


@pytest.mark.parametrize("content", [None, "", " \n", "x" * 100_000])
def test_a_file_without_a_secret_is_an_error(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    with pytest.raises(secrets.MissingSecret, match="secret"):
        secrets.expand(f"file:{file}")


@pytest.mark.parametrize("content", [None, "", "  "])
def test_an_empty_secret_is_an_error_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    if content is not None:
        monkeypatch.setenv("HEADWATER_CONSOLE_TOKEN", content)
    with pytest.raises(secrets.MissingSecret, match="HEADWATER_CONSOLE_TOKEN"):
        secrets.expand("${HEADWATER_CONSOLE_TOKEN}")
    (tmp_path / "headwater.toml").write_text(
        '[console]\nlisten = "0.0.0.0:8765"\ntoken = "${HEADWATER_CONSOLE_TOKEN}"\n'
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadwaterError, match="HEADWATER_CONSOLE_TOKEN"):
        settled(None, None, {}, default_bootstrap="127.0.0.1:9092")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ADDRESS.format("hush"), ADDRESS.format("***")),
        (ADDRESS.format("a@b:/c"), ADDRESS.format("***")),
        (ADDRESS.format("${SHOP_PASSWORD}"), ADDRESS.format("${SHOP_PASSWORD}")),
        ("redis://:hush@cache:6379/0", "redis://:***@cache:6379/0"),
        (
            "postgresql://db/shop?user=app&password=hush",
            "postgresql://db/shop?user=app&password=***",
        ),
        ("sqlite:data/views.db", "sqlite:data/views.db"),
        ("postgresql://app@db/shop", "postgresql://app@db/shop"),
        ("opensearch+https://u:hush@search/x", "opensearch+https://u:***@search/x"),
    ],
)
def test_an_address_is_shown_without_its_password(text: str, shown: str) -> None:
    assert secrets.shown(text) == shown


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("hush", "${SHOP_PASSWORD}"),  # as the manual advises
        ("***", "${HEADWATER_SECRET_1}"),  # rebuilt by a command, then run by `up`
        ("${HEADWATER_SECRET_1}", "${HEADWATER_SECRET_2}"),  # another view has come before it
        ("${SHOP_PASSWORD}", "${file:/run/secrets/shop}"),
    ],
)
@pytest.mark.parametrize("address", [ADDRESS, "postgresql://db/shop?user=app&password={}"])
def test_a_view_goes_on_however_its_password_is_named(address: str, before: str, now: str) -> None:
    def shape(password: str, table: str = "shop") -> Shape:
        to = address.replace("shop", table).format(password)
        return Shape(("headwater orders",), (), "append", to)

    assert shape(now).difference(shape(before)) is None
    assert shape(before).difference(shape(now)) is None
    assert "its target was" in (shape(now, "other").difference(shape(before)) or "")


def test_no_secret_stands_among_the_words_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headwater.toml").write_text(
        """
[log.settings]
"listener.name.sasl.plain.sasl.jaas.config" = "… password=hush-1;"
"num.partitions" = 3
[spark.conf]
"spark.ssl.keyPassword" = "hush-2"
[pipelines]
paths = ["pipelines"]
[views.cache]
to = "redis://:hush-3@cache:6379"
[views.tokens]
to = "sqlite:data/views.db"
[views.rows]
to = "postgresql://app:${ROWS_PASSWORD}@db/shop"
"""
    )
    (tmp_path / "pipelines").mkdir()
    broker, pipelines = parts_of(load(tmp_path / "headwater.toml"))
    words = " ".join((*broker.words, *pipelines.words))
    assert "hush" not in words and "hush" not in repr((broker, pipelines))
    assert "--to tokens=sqlite:data/views.db" in words
    assert "--to rows=postgresql://app:${ROWS_PASSWORD}@db/shop" in words
    assert "--set num.partitions=3" in words
    half = "redis://:half-${ROWS_PASSWORD}@cache:6379"  # expanded once, so it has to stay as it is
    assert secrets.Environment().address(half) == half
    for part, hidden in ((broker, "… password=hush-1;"), (pipelines, "hush-2")):
        ((name, value), *_) = part.environment.items()
        assert (value, f"${{{name}}}" in " ".join(part.words)) == (hidden, True)
        monkeypatch.setenv(name, value)
    (cache,) = (word for word in pipelines.words if word.startswith("cache="))
    for name, value in pipelines.environment.items():
        monkeypatch.setenv(name, value)
    assert secrets.expand(cache) == "cache=redis://:hush-3@cache:6379"
