"""The registry is the truth: each API's docstring, and the list of what is left out, say the same."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map

import headwater.broker
from headwater.broker import api as package
from headwater.broker.registry import Api, load_apis
from tests.compat.wire import Wire

UNSUPPORTED = Path(headwater.broker.__file__).parent / "UNSUPPORTED.md"
MODULES = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
HEADER = re.compile(
    r"(?P<name>\w+) \(key (?P<key>\d+)\), versions? (?P<low>\d+)(?:(?:–| to | and )(?P<high>\d+))?: \S"
)
ROW = re.compile(r"\| (?P<key>\d+) \| (?P<name>\w+) \| (?P<why>.+) \|")


def kafka_name(kio_name: str) -> str:
    """`add_raft_voter` as Kafka spells it."""
    return "".join(word.capitalize() for word in kio_name.split("_"))


def load(module: str) -> tuple[Api, str]:
    found: Any = importlib.import_module(f"{package.__name__}.{module}")
    return found.API, found.__doc__ or ""


@pytest.mark.parametrize("module", MODULES)
def test_an_apis_file_opens_with_its_name_key_and_versions(module: str) -> None:
    api, text = load(module)
    said = HEADER.match(text.splitlines()[0])
    assert said is not None, f"{module} opens with {text.splitlines()[0]!r}"
    assert (said["name"], int(said["key"])) == (api.name, api.key)
    assert (int(said["low"]), int(said["high"] or said["low"])) == api.versions


@pytest.mark.parametrize("module", MODULES)
def test_an_apis_file_is_named_by_its_key_and_its_name(module: str) -> None:
    api, _ = load(module)
    assert module == f"k{api.key:02d}_{api_key_map[api.key]}"
    assert api.name == kafka_name(api_key_map[api.key])


@pytest.mark.parametrize("module", MODULES)
def test_an_api_speaks_only_versions_that_there_are(module: str) -> None:
    api, _ = load(module)
    known = sorted(schema_name_map[api_key_map[api.key]])
    low, high = api.versions
    assert set(range(low, high + 1)) <= set(known)
    assert high == known[-1], "clients choose the newest: leaving it out needs a line in the page"


def test_no_two_files_answer_the_same_key() -> None:
    assert len(load_apis()) == len(MODULES)


def test_a_client_is_told_exactly_what_is_in_the_registry(wire: Wire) -> None:
    hidden = {71, 72}  # client metrics: named only while somebody has subscribed to them (KIP-714)
    told = wire.versions
    expected = {key: api.versions for key, api in load_apis().items()}
    assert {k: v for k, v in told.items() if k not in hidden} == {
        k: v for k, v in expected.items() if k not in hidden
    }


# ---- what is left out --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left_out() -> Mapping[int, tuple[str, str]]:
    """Key → (name, why) of the page's first table."""
    rows = [ROW.fullmatch(line) for line in UNSUPPORTED.read_text().splitlines()]
    found = [(int(row["key"]), (row["name"], row["why"])) for row in rows if row is not None]
    assert len(dict(found)) == len(found), "a key stands there twice"
    return dict(found)


def test_what_is_left_out_is_what_kafka_has_and_the_registry_has_not(
    left_out: Mapping[int, tuple[str, str]],
) -> None:
    assert sorted(left_out) == sorted(set(api_key_map) - set(load_apis()))


def test_each_line_names_the_api_and_says_why_in_one_sentence(
    left_out: Mapping[int, tuple[str, str]],
) -> None:
    for key, (name, why) in left_out.items():
        assert name == kafka_name(api_key_map[key])
        assert re.fullmatch(r"(By design|Not on one node|Next issue): [^.]+\.", why), why


def test_the_table_is_in_the_order_of_the_keys(left_out: Mapping[int, tuple[str, str]]) -> None:
    assert list(left_out) == sorted(left_out)


FEATURES_OF_KAFKA = {"kraft.version", "eligible.leader.replicas.version"}


def test_every_setting_that_the_page_names_exists() -> None:
    from headwater.broker.features import KNOWN
    from headwater.broker.settings.topic import TOPIC
    from headwater.broker.settings.values import BROKER

    page = UNSUPPORTED.read_text()
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", page))
    assert named
    assert named <= {*TOPIC, *BROKER, *KNOWN, *FEATURES_OF_KAFKA}
