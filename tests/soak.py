"""Values of a parameter that only `make soak` tries."""

from __future__ import annotations

from typing import Any

import pytest


def in_soak(*values: Any) -> list[Any]:
    return [pytest.param(each, marks=pytest.mark.soak) for each in values]
