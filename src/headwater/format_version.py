"""The version of a format that outlives a program: of a data folder, a checkpoint's note, headwater.toml.

Whoever reads one of these asks here first. Version 1 is what 0.1.0 wrote, also where none is stated. It
goes up only where an older program would read the rest wrongly; what merely adds to it keeps the number.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError

FIRST = 1
PROJECT_FILE = 1
"""Of headwater.toml, which several read."""


class NewerFormat(HeadwaterError):
    """Something that a later version of headwater has written, or that does not say which."""


def check(what: str, found: object, known: int) -> int:
    """The version that something says it has; raises NewerFormat if this program cannot read that.

    `what` begins the sentence, as in "/data" or "the checkpoint of 'orders'".
    """
    text = str(FIRST if found is None else found)
    if not (text.isascii() and text.isdecimal() and int(text) >= FIRST):
        raise NewerFormat(
            f"{what} says that its format is {text!r}, which is no version.",
            hint=f"Write {known} if this version of headwater has made it.",
        )
    if int(text) > known:
        raise NewerFormat(
            f"{what} was written by a later version of headwater: it has format {text}, and this one knows "
            f"formats up to {known}.",
            hint="Install that version or a later one; nothing has been changed.",
        )
    return int(text)
