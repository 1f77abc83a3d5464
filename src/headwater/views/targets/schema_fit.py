"""Whether the table of a view still fits the view's columns, in words. Called by targets in `create`.

Compared is what was noted of the view when its table was made (`noted`), not only what the store calls its
types: several of the view's types are one of the store's, and values of one would be misread as another's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.views.targets.contract import Misfit, Shape

if TYPE_CHECKING:
    import pyarrow as pa

Types = Mapping[str, str]
"""Column to type, as somebody writes it."""


def types_of(schema: pa.Schema) -> dict[str, str]:
    """Whether a text may be large, or an inner value missing, is Spark's affair and not a type."""
    return {f.name: str(f.type).replace("large_", "").replace(" not null", "") for f in schema}


def noted(shape: Shape) -> str:
    """What a store keeps of a view's columns, to compare them with later ones."""
    return json.dumps(types_of(shape.schema), ensure_ascii=False)


def read_note(text: str | None) -> Types | None:
    """None where a table is older than such notes."""
    return None if text is None else dict(json.loads(text))


def must_fit(shape: Shape, where: str, found: Types, wanted: Types) -> None:
    """Misfit that names what differs, and what makes a table of the new types."""
    said = differences(found, wanted)
    if said:
        raise misfit(shape, where, "; ".join(said))


def misfit(shape: Shape, where: str, said: str) -> Misfit:
    return Misfit(
        f"{where} does not fit the view {shape.view!r} any more: {said}",
        hint=f"headwater rebuild {shape.view} makes a new version of these columns beside it",
    )


def differences(found: Types, wanted: Types) -> list[str]:
    said = [f"it has no column {name}" for name in wanted if name not in found]
    said += [f"its column {name} is not one of the view's" for name in found if name not in wanted]
    said += [
        f"its column {name} is of {found[name]}, the view's of {kind}"
        for name, kind in wanted.items()
        if name in found and found[name] != kind
    ]
    return said
