"""What pytest finds by its name: it only points to `headwater.testing.plugin`.

A package of its own, because pytest rewrites the assertions of every module in the package that it finds: of
headwater these are only those of the test kit.
"""

import pytest

pytest.register_assert_rewrite("headwater.testing")

from headwater.testing import plugin  # noqa: E402

__all__ = ["plugin"]
