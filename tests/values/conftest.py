"""One broker and one Spark session for this folder, and no session for those after it in the same worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

import headwater.testing
from headwater.testing.plugin import spark_for_tests
from tests.values.places import KEYS, PLACES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every key and every place, but not each with each: that is for `make soak`."""
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        if "tests/values" in str(item.path) and {"place", "name"} <= values.keys():
            if (KEYS.index(values["name"]) + [*PLACES].index(values["place"])) % 3:
                item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="package")
def headwater_spark(
    tmp_path_factory: pytest.TempPathFactory, headwater_spark_settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    with spark_for_tests(tmp_path_factory.mktemp("spark"), headwater_spark_settings) as session:
        yield session


@pytest.fixture(scope="package")
def bootstrap() -> Iterator[str]:
    with headwater.testing.broker(settings={"num.partitions": 1}) as broker:
        yield broker.bootstrap
