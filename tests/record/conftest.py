"""kafka-python, one of the oracles here, warns about its own way of reading files when imported."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
