"""How many dead letters wait, topic by topic; looked at now and then, and not beyond a bound."""

from __future__ import annotations

from headwater.browse.dead_letters.survey import dead_letter_topics, open_letters
from headwater.client.log import TIMEOUT_S, Log
from headwater.console.watching.cache import Cached

FOR_S = 5.0
LETTERS_MOST = 1000


class Letters:
    """Of every dead-letter topic."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting = Cached(self._look, FOR_S)

    def waiting(self) -> dict[str, int]:
        """Topic → letters that nobody has dealt with; those without any are left out."""
        return self._waiting.get()

    def glance(self) -> dict[str, int]:
        return self._waiting.glance({})

    def forget(self) -> None:
        self._waiting.forget()

    def _look(self) -> dict[str, int]:
        found = {}
        for topic in dead_letter_topics(self._log.admin.list_topics(timeout=TIMEOUT_S).topics):
            with open_letters(self._log.settings, topic) as letters:
                if waiting := letters.survey(LETTERS_MOST).waiting:
                    found[topic] = waiting
        return found
