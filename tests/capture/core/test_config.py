"""A capture's settings, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.capture.config import CaptureConfig, from_file, from_mapping
from headwater.capture.errors import Misconfigured
from headwater.capture.source import open_source
from headwater.errors import HeadwaterError


def test_a_section_of_the_file_is_a_capture_and_secrets_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")
    file = tmp_path / "headwater.toml"
    file.write_text(
        '[capture.shop]\nfrom = "postgresql://app:${SHOP_PASSWORD}@db/shop"\n'
        'tables = ["orders"]\nschema = true\nslot = "mine"\n'
    )
    config = from_file(file, "shop", "log:9092")
    assert config.url == "postgresql://app:s3cret@db/shop"
    assert (config.tables, config.schema, config.bootstrap) == (("orders",), True, "log:9092")
    assert config.options == {"slot": "mine"}
    assert config.transaction_topic == "shop.transaction"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[capture.shop]\ntables = []", "`from` is missing"),
        ("[capture.other]\nfrom = 'x:y'", "has no .capture.shop."),
        ("[capture.shop", "is not TOML"),
        ("[capture.shop]\nfrom = 'postgresql://${NOT_THERE_AT_ALL}@db'", "has no NOT_THERE_AT_ALL"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(text)
    with pytest.raises(HeadwaterError, match=sentence):
        from_file(file, "shop", "log:9092")


def test_a_missing_file_an_odd_name_and_an_unknown_database_are_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="there is no"):
        from_file(tmp_path / "headwater.toml", "shop", "log:9092")
    with pytest.raises(Misconfigured, match="cannot be called"):
        CaptureConfig("a/b", "postgresql://db")
    with pytest.raises(Misconfigured, match="no kind of database"):
        open_source(from_mapping("shop", {"from": "oracle://db"}, "log:9092"))


def test_an_option_of_another_type_is_refused() -> None:
    with pytest.raises(Misconfigured, match="chunk_rows = 'many' is no number of rows"):
        CaptureConfig("shop", "postgresql://db", options={"chunk_rows": "many"})
