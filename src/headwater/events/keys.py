"""The keys of subjects: one for each, in a compacted topic; destroying it makes what it sealed unreadable.

They lie in `__headwater_keys`, wrapped by the master key (`master_key`), which is not in the log. Keys from
before lie in `headwater.keys` as they are: they reveal what they sealed, and seal nothing more; `move` wraps
them and takes them from there.

A subject may have several keys, where two processes made one at the same time. Who has read a key keeps it
in memory, and looks for tombstones before it uses one (at most `refresh_s` old; see `key_topic`). `forget`
writes the tombstones; the command `headwater forget` also takes the key's record out of the log's files.
"""

from __future__ import annotations

import os
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater.client import creation
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError
from headwater.client.publisher import Publisher
from headwater.events import clock, master_key
from headwater.events import options as clients
from headwater.events.errors import EventsError
from headwater.events.key_topic import FORMER_TOPIC, TOPIC, KeyName, KeyTopic, StoredKey
from headwater.events.master_key import MasterKey
from headwater.events.personal import Personal

_NONCE = 12
_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "3600000",
}


class KeyPlace(NamedTuple):
    """Where a key's record lies: in partition 0 of a topic."""

    topic: str
    offset: int


class Keys:
    """The keys of all subjects. May be used from several threads.

    They are wrapped by `master` (32 bytes); without it by what HEADWATER_MASTER_KEY says, or by the key in
    ~/.config/headwater/master.key, which is made with the first key of a log. Keep a copy of that file.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client: clients.Client = None,
        topic: str = TOPIC,
        master: bytes | None = None,
        refresh_s: float = 1.0,
    ) -> None:
        self.topic = topic
        self._lock = Lock()
        self._cluster = Cluster(clients.for_cluster(bootstrap, client))
        publisher = Publisher(clients.for_confluent(bootstrap, client))
        self._topics = [KeyTopic(self._cluster, publisher, topic)]
        if topic == TOPIC:
            self._topics.append(KeyTopic(self._cluster, publisher, FORMER_TOPIC, is_former=True))
        self._master = MasterKey(master) if master is not None else None
        self._refresh_s = refresh_s
        self._refreshed = float("-inf")
        creation.ensure_one(self._cluster, topic, 1, _CONFIG)

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def seal(self, subject: str, text: str) -> Personal:
        """Encrypt; the subject gets a key with its first text. The key is on disk when this returns."""
        if "\0" in subject:
            raise EventsError("a subject's name has no zero in it")
        with self._lock:
            self._refresh()
            name, key = next(self._sealing(subject), None) or self._make(subject)
        nonce = os.urandom(_NONCE)
        sealed = nonce + AESGCM(key).encrypt(nonce, text.encode(), subject.encode())
        return Personal(subject, f"{name.key_id}:{b64encode(sealed).decode()}")

    def reveal(self, sealed: Personal) -> str | None:
        """The text; None when its subject is forgotten."""
        key_id, _, text = sealed.sealed.partition(":")
        name = KeyName(sealed.subject, key_id)
        with self._lock:
            self._refresh()
            stored = self._find(name)
            if stored is None:
                self._refresh(now=True)
                stored = self._find(name)
            if stored is None:
                return None
            key = self._opened(name, stored)
        raw = b64decode(text)
        try:
            return AESGCM(key).decrypt(raw[:_NONCE], raw[_NONCE:], sealed.subject.encode()).decode()
        except InvalidTag:
            raise EventsError(f"what was sealed for {sealed.subject} has been changed") from None

    def forget(self, subject: str) -> list[KeyPlace]:
        """Destroy the subject's keys. Where their records are, which are still in the files."""
        with self._lock:
            self._refresh(now=True)
            found: list[KeyPlace] = []
            for topic in self._topics:
                mine = {name: key for name, key in topic.keys.items() if name.subject == subject}
                for name in mine:
                    self._put(topic, name, None)
                found += [KeyPlace(topic.name, key.offset) for key in mine.values()]
            self._refresh(now=True)
        return sorted(found)

    def destroyed(self, subject: str) -> list[KeyPlace]:
        """Keys that were destroyed and whose records are still in the log."""
        with self._lock:
            self._refresh(now=True)
            return sorted(
                KeyPlace(topic.name, offset)
                for topic in self._topics
                for offset in topic.destroyed.get(subject, ())
            )

    def move(self) -> list[KeyPlace]:
        """Wrap the keys that lie open, and destroy those records. Where these are, still in the files.

        Programs from before this version cannot use the keys any more then.
        """
        moved: list[KeyPlace] = []
        with self._lock:
            self._refresh(now=True)
            for topic in self._topics:
                for name, stored in tuple(topic.keys.items()):
                    if stored.master is None:
                        key = self._opened(name, stored)
                        self._put(self._topics[0], name, self._writing().wrap(key, name.encode()))
                        moved.append(KeyPlace(topic.name, stored.offset))
                        if topic is not self._topics[0]:
                            self._put(topic, name, None)
            self._refresh(now=True)
        return sorted(moved)

    # ---- keys and what wraps them ---------------------------------------------------------------

    def _find(self, name: KeyName) -> StoredKey | None:
        return next((topic.keys[name] for topic in self._topics if name in topic.keys), None)

    def _sealing(self, subject: str) -> Iterator[tuple[KeyName, bytes]]:
        """Keys that may seal: those that our master key has wrapped. Anybody may have written the others."""
        for name, stored in self._topics[0].keys.items():
            if name.subject == subject and stored.master is not None:
                key = stored.opened(name, self._reading())
                if key is not None:
                    yield name, key

    def _opened(self, name: KeyName, stored: StoredKey) -> bytes:
        key = stored.opened(name, self._reading())
        if key is None:
            raise EventsError(
                f"the key of {name.subject} was sealed by another master key"
                + (f", {stored.master}" if stored.master else ""),
                hint="open the keys with the master key that they were made with: it belongs into "
                f"{master_key.VARIABLE} or {master_key.default_path()}",
            )
        return key

    def _reading(self) -> MasterKey | None:
        if self._master is None:
            self._master = master_key.configured()
        return self._master

    def _writing(self) -> MasterKey:
        found = self._reading()
        if found is None:
            others = {each.master for each in self._topics[0].keys.values() if each.master}
            if others:
                raise EventsError(
                    f"the keys in {self.topic} are sealed by a master key that is not here: {min(others)}",
                    hint=f"copy it to {master_key.default_path()}, or set {master_key.VARIABLE}",
                )
            found = self._master = master_key.create()
        return found

    def _make(self, subject: str) -> tuple[KeyName, bytes]:
        name, key = KeyName(subject, uuid.uuid4().hex[:12]), AESGCM.generate_key(256)
        self._put(self._topics[0], name, self._writing().wrap(key, name.encode()))
        self._refresh(now=True)
        return name, key

    def _put(self, topic: KeyTopic, name: KeyName, value: bytes | None) -> None:
        try:
            topic.put(name, value)
        except ClientError as error:
            raise EventsError(
                f"a key could not be stored: {error}",
                hint="nothing was sealed with it; try again when the log can be reached",
            ) from error

    def _refresh(self, now: bool = False) -> None:
        if now or clock.seconds() - self._refreshed >= self._refresh_s:
            for topic in self._topics:
                topic.refresh()
            self._refreshed = clock.seconds()
