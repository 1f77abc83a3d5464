"""The registry's state as one thing: a topic that is followed, and changes that only one process can make
at a time.

    with Store(Log(bootstrap)) as store:
        store.change(lambda state: changes.register(state, asked))
        store.state.versions("orders-value")

Made by `headwater schemas serve` and by the commands that read `_schemas` themselves. Blocking, for
several threads.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from itertools import starmap

from headwater.client import creation, settings
from headwater.client.cluster import LATEST, READ_COMMITTED, Cluster
from headwater.client.errors import BrokerUnreachable, ClientError, told
from headwater.client.log import Log
from headwater.client.options import cluster_settings
from headwater.errors import HeadwaterError
from headwater.schemas import records
from headwater.schemas.changes import Answer, Decision
from headwater.schemas.errors import RegistryError, other_writer, store_failed
from headwater.schemas.follower import Follower
from headwater.schemas.records import Record
from headwater.schemas.sandbox import Sandbox
from headwater.schemas.state import State
from headwater.schemas.writer import Writer, WriterFenced

TIMEOUT_S = 20.0
_TRIES = 12
CONFIG = {"cleanup.policy": "compact"}


class BadTopic(HeadwaterError):
    """The topic is not one that a registry can keep its state in."""


class Store:
    def __init__(self, log: Log, topic: str = records.TOPIC, *, may_create: bool = True) -> None:
        self._log, self._topic, self._may_create = log, topic, may_create
        self._sandbox = Sandbox()
        self.state = State(self._sandbox)
        self._follower = Follower(self._cluster, topic, self.state)
        self._writing = threading.Lock()
        self._looking = threading.Lock()
        self._looked_at = 0.0
        self._end = 0
        self._own: Cluster | None = None
        self._writer: Writer | None = None

    def __enter__(self) -> Store:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Until all that is there now was read. Raises BadTopic, BrokerUnreachable."""
        with self._looking:
            cluster = self._asker()
            self._ensure(cluster)
        self._follower.start()
        self.catch_up()

    def close(self) -> None:
        self._follower.close()
        with self._writing, self._looking:
            if self._own is not None:
                self._own.close()
            if self._writer is not None:
                self._writer.close()
        self._sandbox.close()

    def _cluster(self) -> Cluster:
        return Cluster(cluster_settings(self._log.settings, TIMEOUT_S))

    def _asker(self) -> Cluster:
        if self._own is None:
            self._own = self._cluster()
        return self._own

    def _ensure(self, cluster: Cluster) -> None:
        if self._may_create:
            found = creation.ensure_one(cluster, self._topic, 1, CONFIG)
        else:
            named = cluster.metadata([self._topic]).topics
            if self._topic not in named:
                raise BadTopic(
                    f"there is no topic {self._topic}",
                    hint="is this the cluster that the registry uses?",
                )
            found = named[self._topic]
        if len(found.leaders) != 1:
            raise BadTopic(
                f"{self._topic} has {len(found.leaders)} partitions, and a registry needs one",
                hint="give another with --topic, or move what is in it (docs/schemas-moving.md)",
            )
        self._check_policy()

    def _check_policy(self) -> None:
        """Where it may be seen. Raises BadTopic."""
        with told(f"asking for the settings of {self._topic}", self._log.bootstrap):
            found = settings.of_topics(self._log.admin, [self._topic], strict=False)
        policy = found.get(self._topic, {}).get("cleanup.policy")
        if policy is not None and policy.value != "compact":
            raise BadTopic(
                f"{self._topic} has cleanup.policy={policy.value}, and would forget schemas",
                hint="set it to compact, or give another with --topic",
            )

    def catch_up(self) -> None:
        """Until all that is in the topic now was applied. Who comes while another looks has the next look,
        with all others that wait for it."""
        asked_at = time.monotonic()
        with self._looking:
            if self._looked_at < asked_at:
                place = (self._topic, 0)
                began = time.monotonic()
                self._end = self._asker().list_offsets({place: LATEST}, READ_COMMITTED)[place]
                self._looked_at = began
            end = self._end
        self._follower.wait_for(end - 1, TIMEOUT_S)

    def refresh(self) -> None:
        """For who finds nothing: another registry may have written it."""
        try:
            self.catch_up()
        except ClientError as error:
            raise store_failed(error.sentence) from None

    def change(self, decide: Callable[[State], Decision[Answer]]) -> Answer:
        """What `decide` answers, once its records are in the log and applied. It may be called again.

        Raises what it raises; other_writer, store_failed or timed_out where it cannot be written.
        """
        with self._writing:
            for attempt in range(_TRIES):
                try:
                    return self._once(decide)
                except WriterFenced:
                    time.sleep(min(1.0, 0.01 * 2**attempt) * random.uniform(0.5, 1.5))
                except BrokerUnreachable as error:
                    raise store_failed(error.sentence) from None
                except RegistryError:
                    raise
                except ClientError as error:
                    raise store_failed(error.sentence) from None
        raise other_writer(f"other registries write {self._topic} all the time; try again")

    def _once(self, decide: Callable[[State], Decision[Answer]]) -> Answer:
        if self._writer is None:
            self._writer = Writer(self._cluster(), self._topic)
        writer, is_settled = self._writer, False
        try:
            mark = writer.claim()
            if mark is not None:
                self._follower.wait_for(mark, TIMEOUT_S)
                # The mark takes the place of a NOOP that said so.
                self._append(writer, starmap(records.ids_given, self.state.given_ids().items()))
            decision = decide(self.state)
            self._append(writer, decision.records)
            is_settled = True
        except RegistryError as error:
            is_settled = error.status < 500
            raise
        finally:
            if not is_settled:
                writer.drop()
        return decision.answer

    def _append(self, writer: Writer, new: Iterable[Record]) -> None:
        """In batches that a broker takes, and until all were applied."""
        offset = -1
        for some in records.batches(new):
            offset = writer.append(some)
        self._follower.wait_for(offset, TIMEOUT_S)
