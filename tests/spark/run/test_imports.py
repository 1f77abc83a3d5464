"""What is imported beside the start of Java, and only where it will be needed."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from pathlib import Path
from headwater.pipelines.loader import Source, imported_meanwhile

for text in ("hw.stream('events')", "hw.table('shop.orders')"):
    with imported_meanwhile([Source(Path(), Path(), text)]):
        pass
    print("headwater.views.tables.follower" in sys.modules)
"""


def test_what_views_over_tables_need_is_imported_where_a_file_names_a_table():
    found = subprocess.check_output([sys.executable, "-c", _PROGRAM], text=True)
    assert found.split() == ["False", "True"]
