"""Schemas for whoever decodes values (`values.codecs`): asked of a registry, or read from its topic.

A registry is asked by HTTP, wherever it is. Its topic `_schemas` can be read where the log holds it: then
nothing has to be configured, and nothing else has to run.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import uuid

from headwater.client import ranges as reading
from headwater.client import topics
from headwater.client.errors import told
from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.schemas import bounds, records, resolution, subjects
from headwater.schemas.cache import Cache, letters_of
from headwater.schemas.client import RegistryClient, shared
from headwater.schemas.errors import InvalidSchema, RegistryError
from headwater.schemas.follower import applied
from headwater.schemas.model import Imported, Schema
from headwater.schemas.records import Version
from headwater.schemas.state import State
from headwater.schemas.values.codecs import Found, Lookup

REGISTRY = "HEADWATER_REGISTRY"
"""In the environment: the address of a registry."""
AGAIN_S = 0.1
"""Between two looks for an id that was not there: it may be registered at any time."""
LOOKS_MAX = 20
"""At once, for so many ids; and one more each `AGAIN_S`, which finds all that came, whoever asks."""
LATEST_S = 2.0
"""So long the latest schema of a subject is taken for the latest."""
_log = logging.getLogger("headwater.schemas")


def lookup_beside(log: Log) -> Lookup:
    """For who reads or writes a log: a registry that the environment names, else `_schemas` of this log,
    which needs nobody to run."""
    url = os.environ.get(REGISTRY)
    return RegistryLookup(shared(url)) if url else TopicLookup(log)


class RegistryLookup:
    """By HTTP."""

    def __init__(self, client: RegistryClient) -> None:
        self.client = client
        self._latest: dict[str, tuple[float, Found | None]] = {}
        self._known: Cache[int, Found] = Cache()
        self._missed: dict[int, float] = {}
        """Ids that were not there, and when they are asked for again."""

    def by_id(self, identity: int) -> Found | None:
        if (known := self._known.get(identity)) is not None:
            return known
        if self._missed.get(identity, -math.inf) > time.monotonic():
            return None
        try:
            found = self.whole(identity, self.client.by_id(identity))
            return self._known.put(identity, found, letters_of(found.schema, found.imported))
        except RegistryError as error:
            if error.status != 404:
                raise
            if len(self._missed) >= LOOKS_MAX:
                self._missed.clear()
            self._missed[identity] = time.monotonic() + AGAIN_S
            return None

    def latest(self, subject: str) -> Found | None:
        at, found = self._latest.get(subject, (-LATEST_S, None))
        now = time.monotonic()
        if now - at >= LATEST_S:
            version = self.version(subject)
            found = (
                None
                if version is None
                else self.whole(version.id, version.schema, subjects.context_of(version.subject))
            )
            self._latest[subject] = (now, found)
        return found

    def version(self, subject: str, number: int | None = None) -> Version | None:
        try:
            return self.client.version(subject, number)
        except RegistryError as error:
            if error.status == 404:
                return None
            raise

    def whole(self, identity: int, schema: Schema, context: str = subjects.DEFAULT) -> Found:
        """With all that it refers to; `context`: of its subject, in which references are meant."""
        needed: dict[str, Imported] = {}
        self._collect(schema, context, needed)
        return Found(identity, schema, tuple(needed.values()))

    def _collect(
        self, schema: Schema, context: str, needed: dict[str, Imported], depth: int = 0
    ) -> None:
        for each in schema.references:
            if each.name in needed:
                continue
            if len(needed) >= bounds.REFERENCES_MAX or depth >= bounds.DEPTH_MAX:
                raise InvalidSchema("it refers to too many others")
            subject = subjects.qualified(context, each.subject)
            inner = self.client.version(subject, each.version, deleted=True)
            self._collect(inner.schema, subjects.context_of(inner.subject), needed, depth + 1)
            needed[each.name] = Imported(each.name, inner.schema.text)


class _Looks:
    """Which of those that find nothing may have the topic read again, as it costs two requests."""

    def __init__(self) -> None:
        self._left = float(LOOKS_MAX)
        self._at = -math.inf
        self._again: dict[int | None, float] = {}
        """What was looked for, and when that may be done again."""

    def may_look(self, identity: int | None, now: float) -> bool:
        """None: for what is the latest."""
        if self._again.get(identity, -math.inf) > now:
            return False
        self._left = min(float(LOOKS_MAX), self._left + (now - self._at) / AGAIN_S)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        self._again = {each: then for each, then in self._again.items() if then > now}
        self._again[identity] = now + (LATEST_S if identity is None else AGAIN_S)
        return True


class TopicLookup:
    """From `_schemas` of a log: read once, and again from where it ended for what was not there."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._state = State()
        self._lock = threading.Lock()
        self._position = 0
        self._topic_id: uuid.UUID | None = None
        self._looks = _Looks()

    def by_id(self, identity: int) -> Found | None:
        versions = self._state.by_id(subjects.DEFAULT, identity)
        if not versions:
            self._read(identity)
            versions = self._state.by_id(subjects.DEFAULT, identity)
        return self._whole(versions[0]) if versions else None

    def latest(self, subject: str) -> Found | None:
        self._read()
        version = self._state.version(subjects.normalized(subject), -1)
        return None if version is None else self._whole(version)

    def state(self) -> State:
        """All that it says, as of a moment ago."""
        self._read()
        return self._state

    def _whole(self, version: Version) -> Found:
        context = subjects.context_of(version.subject)
        needed = resolution.imported(self._state, context, version.schema.references)
        return Found(version.id, version.schema, needed)

    def _read(self, identity: int | None = None) -> None:
        """`identity`: what is not there."""
        with self._lock:
            if not self._looks.may_look(identity, time.monotonic()):
                return
            try:
                self._apply()
            except HeadwaterError as error:  # no such topic, or none that may be read
                _log.debug("%s: %s", records.TOPIC, error)

    def _apply(self) -> None:
        with told("asking for its id", self._log.bootstrap):
            topic_id = topics.id_of(self._log.admin, records.TOPIC)
        if topic_id != self._topic_id:  # it was made anew, and its offsets are others
            self._state.clear()
            self._topic_id, self._position = topic_id, 0
        for partition, (start, end) in self._log.ranges(records.TOPIC).items():
            begin = max(start, self._position)
            if partition or begin >= end:
                continue
            for some in reading.read(self._log, records.TOPIC, {0: (begin, end)}):
                for record in some:
                    applied(self._state, record.key, record.value)
            self._position = end
