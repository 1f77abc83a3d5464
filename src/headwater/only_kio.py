"""kio, without what it would bring along for tests. Imported before anything else that needs kio.

kio offers strategies for its types where hypothesis can be imported, and that takes four times as long as
kio itself, and 10 MB. The broker pays for it once, Spark in each of the Python processes that it starts.
"""

from __future__ import annotations

import sys

if "kio" not in sys.modules and "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
