"""What becomes of changes whose value cannot be read: dead letters, or the end of the query.

`tables` and `table_views` ask for it when a query is built. A letter is written before any row behind it is
handed on; who writes it looks first whether it is there (`headwater.views.tables.bad_values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.client.options import Options
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import FAIL

if TYPE_CHECKING:
    from headwater.views.tables.bad_values import Refuse


def refusal(context: Context) -> Refuse:
    """What becomes of a value that cannot be read, in the query that is built."""
    from headwater.views.tables.bad_values import DeadLetterBox, stop

    view = context.view
    if view is not None and view.on_refused == FAIL:
        return stop
    context.dead_letters = True  # so that they are counted
    client = Options(context.kafka_options()).client_settings()
    return DeadLetterBox(None if view is None else view.dead_letters, client)
