"""headwater: one ordered, durable, replayable log, and everything else as a view of it.

`import headwater` costs next to nothing: the public names below are loaded when first used, so
that a script that only asks for the version, and `headwater --help`, stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker import Broker as Broker
    from headwater.errors import HeadwaterError as HeadwaterError
    from headwater.pipelines.session import session as session
    from headwater.pipelines.vocabulary import stream as stream
    from headwater.pipelines.vocabulary import table as table
    from headwater.pipelines.vocabulary import view as view

__all__ = ["Broker", "HeadwaterError", "__version__", "session", "stream", "table", "view"]
__version__ = "0.1.0"

# Public name -> module that has it. By name and not by import: the inner rings may import this
# package without drawing in the outer ones.
_HOME = {
    "Broker": "headwater.broker",
    "HeadwaterError": "headwater.errors",
    "session": "headwater.pipelines.session",
    "stream": "headwater.pipelines.vocabulary",
    "table": "headwater.pipelines.vocabulary",
    "view": "headwater.pipelines.vocabulary",
}
_PACKAGES = ("events", "processing", "testing", "views")
"""So that `import headwater` is enough to use them."""


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"headwater.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
