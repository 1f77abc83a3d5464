"""The root of every error that a person is meant to read.

Each ring derives its own errors from `HeadwaterError`; the command line catches that one class,
prints its sentence and leaves with an exit code. Anything else that escapes is our own mistake
and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable


class HeadwaterError(Exception):
    """One clear sentence for the user; `hint`, where given, says what to do next.

    A traceback shows the hint as well: as a note, unless it is part of the text.
    """

    hint_in_text = False

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint
        if hint is not None and not self.hint_in_text:
            self.add_note(hint)

    @property
    def sentence(self) -> str:
        """What went wrong, without the hint, for those who show that in a place of its own."""
        return str(self.args[0]) if self.args else type(self).__name__

    @property
    def with_hint(self) -> str:
        """What went wrong and, where something is known, what to do next."""
        if not self.hint:
            return str(self)
        return (
            f"{self.sentence}{' ' if self.sentence.endswith(('.', '?', '!')) else '; '}{self.hint}"
        )


def missing_package(error: ModuleNotFoundError) -> str:
    """The package to be installed; raises `error` where a module of our own is missing, our own mistake."""
    if error.name is None or error.name.partition(".")[0] == "headwater":
        raise error
    return error.name


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown word: the one that was probably meant, or all there are."""
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
