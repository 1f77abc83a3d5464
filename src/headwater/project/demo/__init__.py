"""The demo: the log from end to end on this machine, with a kill -9 in the middle.

Called by `headwater demo`. A broker starts as a child process (`job`); a producer writes numbered
records for a thousand keys and notes what was acknowledged (`produce`); half-way the broker is
killed with the producer still writing, and started again; then everything is read back from
offset 0 and compared with the notes (`replay`), and read and derived from by Spark (`processing`).
Last, a database is captured and views follow it (`shop`). What happened is told to an `Audience` as
it happens and returned as a `Summary`.
"""

from headwater.project.demo.job import run
from headwater.project.demo.summary import Audience, DemoFailed, Plan, Spark, Summary, Views

__all__ = ["Audience", "DemoFailed", "Plan", "Spark", "Summary", "Views", "run"]
