"""What is asked of a schema's text: its forms, and whether it gets along with others; `changes` asks.

`Direct` answers in this process, one question after the other, as long as it takes: for `sandbox`, which asks
it in a process of its own, and for tests. Schemas that were parsed are kept for a while.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from headwater.schemas import kinds, levels
from headwater.schemas.errors import RegistryError
from headwater.schemas.levels import Known
from headwater.schemas.model import Imported, Parsed

Form = Literal["canonical", "normalized", "serialized", "whole", "descriptors"]
"""The last of Protobuf alone."""
PARSED_MAX = 32


class Source(NamedTuple):
    """A schema as it was sent, with all that it refers to."""

    kind: str
    text: str
    imported: tuple[Imported, ...] = ()


class Dated(NamedTuple):
    """A version that a new schema has to get along with."""

    version: int
    source: Source


class Parser(Protocol):
    def text(self, source: Source, form: Form, *, is_new: bool) -> str:
        """Raises InvalidSchema, too_large."""

    def complaints(self, new: Source, known: Sequence[Dated], level: str) -> list[str]:
        """Why it does not get along with them, in the words of `levels`. Raises InvalidSchema, too_large."""

    def remembering(self) -> AbstractContextManager[None]:
        """What this thread asks inside is looked at once, however much the others ask meanwhile."""

    def from_memory(self) -> AbstractContextManager[None]:
        """For who holds up others: what this thread has not asked before is Unprepared."""

    def close(self) -> None: ...


class Unprepared(RegistryError):
    """What is asked has changed since it was prepared: prepare it, and decide again."""

    def __init__(self) -> None:
        super().__init__(409, "others change the subject all the time: try again")


Said = TypeVar("Said")


class Answers(Generic[Said]):
    """What was answered, by digests of the questions: the last `most`, and all of a thread that remembers.

    For several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Said] = OrderedDict()
        self._own = threading.local()

    @contextmanager
    def remembering(self) -> Iterator[None]:
        self._own.answers = {}
        try:
            yield
        finally:
            del self._own.answers

    @contextmanager
    def from_memory(self) -> Iterator[None]:
        self._own.is_closed = True
        try:
            yield
        finally:
            self._own.is_closed = False

    def _of_thread(self) -> dict[bytes, Said]:
        found: dict[bytes, Said] = getattr(self._own, "answers", {})
        return found

    def get(self, question: bytes) -> Said | None:
        """None: it is not known. Raises Unprepared where it would have to be."""
        digest = hashlib.sha256(question).digest()
        with self._lock:
            found = self._of_thread().get(digest) or self._kept.get(digest)
        if found is None and getattr(self._own, "is_closed", False):
            raise Unprepared
        return found

    def put(self, question: bytes, answer: Said) -> None:
        digest = hashlib.sha256(question).digest()
        self._of_thread()[digest] = answer
        with self._lock:
            self._kept[digest] = answer
            self._kept.move_to_end(digest)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class Direct:
    def text(self, source: Source, form: Form, *, is_new: bool) -> str:
        return str(getattr(_parsed(source, is_new), form))

    def complaints(self, new: Source, known: Sequence[Dated], level: str) -> list[str]:
        parsed = [Known(each.version, _parsed(each.source, False)) for each in known]
        return levels.complaints(_parsed(new, False), parsed, level)

    def remembering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def from_memory(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        _parsed.cache_clear()


@lru_cache(maxsize=PARSED_MAX)
def _parsed(source: Source, is_new: bool) -> Parsed:
    return kinds.parse(source.kind, source.text, source.imported, is_new=is_new)


def answered(parser: Direct, question: list[object]) -> object:
    """A question as `sandbox` has it in its frames."""
    word, source, first, second = question
    if word == "text":
        return parser.text(_source(source), cast("Form", first), is_new=bool(second))
    known = cast("list[tuple[int, object]]", first)
    dated = [Dated(version, _source(each)) for version, each in known]
    return parser.complaints(_source(source), dated, str(second))


def _source(given: object) -> Source:
    kind, text, imported = cast("tuple[str, str, list[tuple[str, str]]]", given)
    return Source(kind, text, tuple(Imported(*each) for each in imported))
