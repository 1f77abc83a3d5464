"""Views: derived systems that follow the log, exactly once, at a known position.

    targets   a folder for each system, the contract that all meet, and which of them a view's `to` means
    applier   a micro-batch into its target (order, stage, dead_letters)
    operate   versions side by side, rebuilt; compared with the log (verify) and repaired; waited for
    folding   one key's changes in a topic, folded up to a moment
    tables    views over tables, kept current row by row

For applications: `headwater.views.View(NAME, to=TARGET).wait(POSITION, timeout)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater.client.position import Position as Position
    from headwater.views.asgi import ReadYourWrites as ReadYourWrites
    from headwater.views.operate.wait import NotYet as NotYet
    from headwater.views.operate.wait import View as View
    from headwater.views.operate.wait import after as after
    from headwater.views.operate.wait import wait as wait
    from headwater.views.targets.contract import DELETED as DELETED
    from headwater.views.targets.contract import VALID_FROM as VALID_FROM
    from headwater.views.targets.contract import VALIDITY as VALIDITY
    from headwater.views.targets.contract import Applied as Applied
    from headwater.views.targets.contract import Fenced as Fenced
    from headwater.views.targets.contract import Kind as Kind
    from headwater.views.targets.contract import Misfit as Misfit
    from headwater.views.targets.contract import Part as Part
    from headwater.views.targets.contract import Refusal as Refusal
    from headwater.views.targets.contract import RowsRefused as RowsRefused
    from headwater.views.targets.contract import Shape as Shape
    from headwater.views.targets.contract import Target as Target
    from headwater.views.targets.contract import Unavailable as Unavailable
    from headwater.views.targets.function import Batch as Batch
    from headwater.views.targets.json_rows import from_objects as from_objects
    from headwater.views.targets.json_rows import objects as objects
    from headwater.views.targets.registry import Factory as Factory
    from headwater.views.targets.registry import NoSuchTarget as NoSuchTarget
    from headwater.views.targets.registry import register as register
    from headwater.views.targets.registry import target_for as target_for
    from headwater.views.targets.staged_files import Admission as Admission
    from headwater.views.targets.staged_files import StagedFiles as StagedFiles
    from headwater.views.targets.staged_files import staged_schema as staged_schema
    from headwater.views.targets.texts import key_texts as key_texts

_HOME = {
    "Admission": "headwater.views.targets.staged_files",
    "Applied": "headwater.views.targets.contract",
    "Batch": "headwater.views.targets.function",
    "DELETED": "headwater.views.targets.contract",
    "Factory": "headwater.views.targets.registry",
    "Fenced": "headwater.views.targets.contract",
    "Kind": "headwater.views.targets.contract",
    "Misfit": "headwater.views.targets.contract",
    "NoSuchTarget": "headwater.views.targets.registry",
    "NotYet": "headwater.views.operate.wait",
    "Part": "headwater.views.targets.contract",
    "Position": "headwater.client.position",
    "ReadYourWrites": "headwater.views.asgi",
    "Refusal": "headwater.views.targets.contract",
    "RowsRefused": "headwater.views.targets.contract",
    "Shape": "headwater.views.targets.contract",
    "StagedFiles": "headwater.views.targets.staged_files",
    "Target": "headwater.views.targets.contract",
    "Unavailable": "headwater.views.targets.contract",
    "VALIDITY": "headwater.views.targets.contract",
    "VALID_FROM": "headwater.views.targets.contract",
    "View": "headwater.views.operate.wait",
    "after": "headwater.views.operate.wait",
    "from_objects": "headwater.views.targets.json_rows",
    "key_texts": "headwater.views.targets.texts",
    "objects": "headwater.views.targets.json_rows",
    "register": "headwater.views.targets.registry",
    "staged_schema": "headwater.views.targets.staged_files",
    "target_for": "headwater.views.targets.registry",
    "wait": "headwater.views.operate.wait",
}

__all__ = [
    "DELETED",
    "VALIDITY",
    "VALID_FROM",
    "Admission",
    "Applied",
    "Batch",
    "Factory",
    "Fenced",
    "Kind",
    "Misfit",
    "NoSuchTarget",
    "NotYet",
    "Part",
    "Position",
    "ReadYourWrites",
    "Refusal",
    "RowsRefused",
    "Shape",
    "StagedFiles",
    "Target",
    "Unavailable",
    "View",
    "after",
    "from_objects",
    "key_texts",
    "objects",
    "register",
    "staged_schema",
    "target_for",
    "wait",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
