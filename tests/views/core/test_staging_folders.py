"""Which targets leave parts in files, and where: a cluster tries these folders before a view starts."""

from __future__ import annotations

import pytest

from headwater.testing.targets import shape
from headwater.views.targets.registry import target_for


@pytest.mark.parametrize(
    ("address", "files"),
    [
        ("sqlite:/views/shop.db", True),
        ("duckdb:/views/shop.duckdb", True),
        ("delta:/views/shop", True),
        ("search:/views/shop", True),
        ("postgresql://nobody@127.0.0.1:1/shop", False),
        ("redis://127.0.0.1:1/0", False),
    ],
)
def test_a_target_says_in_which_folder_parts_are_put_aside(address: str, files: bool) -> None:
    folder = target_for(address, shape()).staging_folder
    assert (folder is not None and folder.is_absolute()) is files
