"""The demo: the log, and a whole project on it, from end to end on this machine, with kills in between.

Called by `headwater demo`. First the log alone (`job`): a producer writes numbered records and notes what
was acknowledged (`job`), the broker is killed half-way and started again, everything is read back from
offset 0 and compared with the notes (`job`). Then a shop (`shop`): a project under `headwater up` whose
database is captured, with pipelines and views that follow while it is written to. What happens is told to an
`Audience` as it happens and returned as a `Summary`.
"""

from headwater.project.demo.job import run
from headwater.project.demo.summary import (
    Audience,
    DemoFailed,
    Plan,
    ShopFound,
    Summary,
    ViewFound,
)

__all__ = ["Audience", "DemoFailed", "Plan", "ShopFound", "Summary", "ViewFound", "run"]
