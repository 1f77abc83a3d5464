"""What can be wrong with a pattern or a condition: one sentence, and a caret at the place."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class PatternError(HeadwaterError):
    """A mistake in what was handed to `match`; the query does not start."""


class NoResult(HeadwaterError):
    """A condition or a measure that has no result for the rows at hand; the query stops, as Spark's would."""


class TooManyWays(HeadwaterError):
    """Rows that fit a pattern in more ways than are followed at once; the query stops."""


class OtherPattern(HeadwaterError):
    """The state in the checkpoint was left by another pattern; the query stops."""


def mistake(
    sentence: str, text: str, place: int, *, within: str = "", hint: str = ""
) -> PatternError:
    """The sentence, the text it is about on a line of its own, and a caret below the place.

    `within` names where the text stands (`define 'B'`), as one call holds several.
    """
    where = f"{within}: " if within else ""
    # A text over several lines is shown as one, so that the caret stands under its place.
    shown = "".join(" " if each.isspace() else each for each in text)
    return PatternError(f"{where}{sentence}\n    {shown}\n    {' ' * place}^", hint=hint or None)
