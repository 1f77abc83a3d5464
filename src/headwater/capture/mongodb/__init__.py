"""MongoDB: change streams with resume tokens, full documents, and pre-images where the server has them.

Opened by `headwater.capture.source`. `driver` is the seam: everything that is asked of a server, and
nothing else, is there; `events` makes records of what it answers; `source` is the contract. What of this
has met a server, and which one, is in docs/capture-mongodb.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured

if TYPE_CHECKING:
    from headwater.capture.mongodb.source import MongoSource


def open_source(config: CaptureConfig) -> MongoSource:
    """The source for `from = "mongodb://host/database"`."""
    try:
        from headwater.capture.mongodb.driver import SILENCE_S, PymongoDriver
        from headwater.capture.mongodb.source import MongoSource
    except ImportError as error:
        raise Misconfigured(
            f"MongoDB needs pymongo: {error}", hint="pip install 'headwater[mongodb]'"
        ) from error

    driver = PymongoDriver(config.url, config.tables, config.option("silence_s", SILENCE_S))
    try:
        return MongoSource(config, driver)
    except Misconfigured:
        driver.close()
        raise
