"""What a line of the list came to; for the files beside it."""

from __future__ import annotations

from headwater.project.values import Finding


def fine(name: str, sentence: str) -> Finding:
    return Finding(name, True, sentence)


def failed(name: str, sentence: str, remedy: str) -> Finding:
    return Finding(name, False, sentence, remedy)
