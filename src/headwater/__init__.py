"""headwater: one ordered, durable, replayable log, and everything else as a view of it.

`import headwater` costs next to nothing: the public names below are loaded when first used, so
that a script that only asks for the version, and `headwater --help`, stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater import edges as edges
    from headwater import events as events
    from headwater import processing as processing
    from headwater import testing as testing
    from headwater import views as views
    from headwater.broker import Broker as Broker
    from headwater.errors import HeadwaterError as HeadwaterError
    from headwater.pipelines.session import session as session
    from headwater.pipelines.vocabulary import stream as stream
    from headwater.pipelines.vocabulary import table as table
    from headwater.pipelines.vocabulary import view as view

_HOME = {
    "Broker": "headwater.broker",
    "HeadwaterError": "headwater.errors",
    "edges": "headwater.edges",
    "events": "headwater.events",
    "processing": "headwater.processing",
    "session": "headwater.pipelines.session",
    "stream": "headwater.pipelines.vocabulary",
    "table": "headwater.pipelines.vocabulary",
    "testing": "headwater.testing",
    "view": "headwater.pipelines.vocabulary",
    "views": "headwater.views",
}
__version__ = "0.1.0"

__all__ = [
    "Broker",
    "HeadwaterError",
    "__version__",
    "edges",
    "events",
    "processing",
    "session",
    "stream",
    "table",
    "testing",
    "view",
    "views",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
