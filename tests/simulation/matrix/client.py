"""A client that writes down in the model what it asks for and what it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.compat.batches import GZIP, TRANSACTIONAL, batch

from .model import Commits, Fate, Model, Sent, Settled, Topic, Transaction
from .world import REQUESTS, World, excision_request

KEPT_FOR_EVER = {"cleanup_policy": "delete", "retention_ms": "-1", "retention_bytes": "-1"}
Pair = tuple[bytes | None, bytes | None]


def failed(answer: Any) -> bool:
    return bool(answer.get("error_code"))


class Client:
    """Whoever asks. The random numbers are the world's."""

    def __init__(self, world: World, model: Model) -> None:
        self.world = world
        self.model = model
        self.random = world.random
        self.successes = 0
        """Since somebody has set this to 0: answers without an error."""
        self.refusals: list[str] = []
        self.sequences: dict[tuple[int, int, str, int], int] = {}
        """Producer id, epoch, topic, partition → the next sequence number."""

    def count(self, answer: Any, what: str) -> bool:
        """Whether it went well; counted."""
        if failed(answer):
            self.refusals.append(f"{what}: {ErrorCode(answer['error_code']).name}")
            return False
        self.successes += 1
        return True

    # ---- topics ------------------------------------------------------------------------------------

    async def create(self, name: str, partitions: int = 1, **configs: str) -> bool:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        topic = Topic(name, partitions, named)
        self.model.topics.append(topic)
        rows = [{"name": key, "value": value} for key, value in named.items()]
        asked = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = await self.world.ask(19, 7, topics=[asked | {"configs": rows}], timeout=1000)
        row = answer["topics"][0]
        if self.count(row, f"create {name}"):
            topic.made, topic.id = Fate.ACKNOWLEDGED, row["topic_id"]
        elif row["error_code"] in (
            ErrorCode.invalid_topic_exception,
            ErrorCode.topic_already_exists,
        ):
            self.model.topics.remove(topic)
        return not failed(row)

    async def ensure(self, name: str, partitions: int = 1, **configs: str) -> bool:
        return self.model.has(name) or await self.create(name, partitions, **configs)

    async def delete(self, name: str) -> bool:
        topic = self.model.topic(name)
        topic.deleted = Fate.DOUBTFUL
        answer = await self.world.ask(20, 6, topics=[{"name": name}], timeout=1000)
        row = answer["responses"][0]
        if self.count(row, f"delete {name}"):
            topic.deleted = Fate.ACKNOWLEDGED
            for key in [key for key in self.model.commits if key[1] == name]:
                del self.model.commits[key]
            for key in [key for key in self.model.settled if key[1] == name]:
                del self.model.settled[key]
        return not failed(row)

    async def configure(self, name: str, **configs: str) -> None:
        topic = self.model.topic(name)
        named = {key.replace("_", "."): value for key, value in configs.items()}
        changed = topic.configs | named
        topic.other_configs.append(changed)
        rows = [{"name": n, "config_operation": 0, "value": v} for n, v in named.items()]
        resource = {"resource_type": 2, "resource_name": name, "configs": rows}
        answer = await self.world.ask(44, 1, resources=[resource])
        if self.count(answer["responses"][0], f"configure {name}"):
            before = [topic.configs, *topic.other_configs]
            topic.earlier_configs += [(each, self.model.last_timestamp) for each in before]
            topic.configs, topic.other_configs = changed, []

    # ---- records -----------------------------------------------------------------------------------

    def timestamp(self) -> int:
        self.model.last_timestamp = max(self.world.clock.now_ms(), self.model.last_timestamp + 1)
        return self.model.last_timestamp

    def prepare(
        self,
        topic: Topic,
        partition: int,
        pairs: Sequence[Pair],
        transaction: Transaction | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> tuple[list[Sent], bytes]:
        sent = [
            Sent(topic, partition, self.timestamp(), key, value, transaction)
            for key, value in pairs
        ]
        for each in sent:
            topic.sent[each.timestamp] = each
        if transaction is not None:
            transaction.sent += sent
        data = batch(
            pairs,
            timestamps=[each.timestamp for each in sent],
            producer=producer,
            attributes=(TRANSACTIONAL if transaction else 0)
            | (GZIP if self.random.random() < 0.2 else 0),
        )
        return sent, data

    async def produce(
        self,
        name: str,
        partition: int,
        pairs: Sequence[Pair],
        transaction: Transaction | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        version: int = 12,
    ) -> bool:
        topic = self.model.topic(name)
        sent, data = self.prepare(topic, partition, pairs, transaction, producer)
        attempts = 2 if producer[0] >= 0 else 1
        for attempt in range(attempts):  # a producer with sequences may ask again
            given = 11 if transaction is not None and transaction.is_v1 else version
            row = await self._produce(name, partition, data, transaction, given)
            if self.count(row, f"produce to {name}"):
                for number, each in enumerate(sent):
                    each.fate, each.offset = Fate.ACKNOWLEDGED, row["base_offset"] + number
                return True
            for each in sent:
                each.fate, each.retried = Fate.REFUSED, attempt > 0
        return False

    async def _produce(
        self, name: str, partition: int, data: bytes, transaction: Transaction | None, version: int
    ) -> Any:
        part = {"index": partition, "records": data}
        answer = await self.world.ask(
            0,
            version,
            transactional_id=transaction.name if transaction else None,
            acks=-1,
            topic_data=[{"name": name, "partition_data": [part]}],
        )
        return answer["responses"][0]["partition_responses"][0]

    async def poison(self, name: str) -> None:
        """A batch with a malformed record in the middle: refused, or else everybody can read it."""
        topic = self.model.topic(name)
        pairs: list[Pair] = [(b"poison-%d" % n, b"x" * 30) for n in range(3)]
        sent, data = self.prepare(topic, 0, pairs)
        row = await self._produce(name, 0, _poisoned(data), None, 12)
        for number, each in enumerate(sent):
            each.fate = Fate.REFUSED if failed(row) else Fate.ACKNOWLEDGED
            each.offset = row["base_offset"] + number if not failed(row) else -1

    async def delete_records(self, name: str, partition: int, offset: int) -> None:
        topic = self.model.topic(name)
        topic.start_asked[partition] = max(offset, topic.start_asked.get(partition, 0))
        parts = [{"partition_index": partition, "offset": offset}]
        answer = await self.world.ask(21, 2, topics=[{"name": name, "partitions": parts}])
        row = answer["topics"][0]["partitions"][0]
        if self.count(row, f"delete records of {name}"):
            topic.start[partition] = max(row["low_watermark"], topic.start.get(partition, 0))

    # ---- transactions ------------------------------------------------------------------------------

    async def init(self, name: str | None, timeout_ms: int = 2000) -> tuple[int, int] | None:
        for _ in range(8):  # the first may abort what is open
            answer = await self.world.ask(
                22,
                5,
                transactional_id=name,
                transaction_timeout=timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            )
            if self.count(answer, "init producer"):
                found = answer["producer_id"], answer["producer_epoch"]
                if name is not None:
                    self._check_fencing(name, found)
                    self.model.producers[name] = found
                return found
            await self.world.wait(0.5)
        return None

    def _check_fencing(self, name: str, found: tuple[int, int]) -> None:
        from .oracle import require

        if self.world.has_told("__transaction_state"):
            return
        known = self.model.producers.get(name)
        fenced = known is None or found[0] != known[0] or found[1] > known[1]
        require(fenced, f"{name} got {found}, which does not fence {known}")
        forgotten = known is not None and found[0] != known[0] and known[1] < 30000
        require(not forgotten, f"{name} was {known} and is forgotten: it is {found} now")

    def begin(self, name: str, *, is_v1: bool = False) -> Transaction:
        transaction = Transaction(name, len(self.model.transactions), is_v1=is_v1)
        self.model.transactions.append(transaction)
        return transaction

    def next_sequence(self, producer: tuple[int, int], topic: str, partition: int) -> int:
        """With version 1 an epoch has several transactions, and sequences go on."""
        return self.sequences.get((*producer, topic, partition), 0)

    async def add_partition(
        self, transaction: Transaction, producer: tuple[int, int], topic: str, partition: int
    ) -> bool:
        """Before the first batch there: with version 2 the batch itself says so."""
        answer = await self._until_ready(
            24,
            3,
            v3_and_below_transactional_id=transaction.name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": topic, "partitions": [partition]}],
        )
        rows = answer["results_by_topic_v3_and_below"][0]["results_by_partition"]
        return self.count(_renamed(rows[0]), "add a partition to a transaction")

    async def _until_ready(self, key: int, version: int, **values: Any) -> Any:
        """The one before may not have ended everywhere."""
        for _ in range(8):
            answer = await self.world.ask(key, version, **values)
            if "concurrent_transactions" not in str(answer):
                break
            await self.world.wait(0.1)
        return answer

    async def commit_offset(
        self,
        transaction: Transaction,
        producer: tuple[int, int],
        group: str,
        topic: str,
        offset: int,
    ) -> bool:
        parts = [{"partition_index": 0, "committed_offset": offset}]
        if transaction.is_v1:
            who = {"producer_id": producer[0], "producer_epoch": producer[1]}
            named = {"transactional_id": transaction.name, "group_id": group, **who}
            if not self.count(await self._until_ready(25, 3, **named), "add offsets"):
                return False
        answer = await self.world.ask(
            28,
            4 if transaction.is_v1 else 5,
            transactional_id=transaction.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=-1,
            group_id=group,
            topics=[{"name": topic, "partitions": parts}],
        )
        row = answer["topics"][0]["partitions"][0]
        self.model.commits.setdefault((group, topic, 0), Commits()).ask(offset)
        if self.count(row, "commit an offset in a transaction"):
            transaction.offset = offset
            return True
        return False

    async def end(
        self, transaction: Transaction, producer: tuple[int, int], commit: bool
    ) -> tuple[int, int] | None:
        transaction.end = "commit" if commit else "abort"
        answer = await self.world.ask(
            26,
            4 if transaction.is_v1 else 5,
            transactional_id=transaction.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        if not self.count(answer, "end a transaction"):
            return None
        transaction.fate = Fate.ACKNOWLEDGED
        if transaction.is_v1:
            return producer
        found = answer["producer_id"], answer["producer_epoch"]
        self.model.producers[transaction.name] = found
        return found

    # ---- groups ------------------------------------------------------------------------------------

    async def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        commits = self.model.commits.setdefault((group, topic, partition), Commits())
        commits.ask(offset)
        parts = [{"partition_index": partition, "committed_offset": offset}]
        answer = await self.world.ask(
            8,
            9,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "partitions": parts}],
        )
        if self.count(answer["topics"][0]["partitions"][0], "commit an offset"):
            commits.sure, commits.doubtful = offset, []

    async def committed(self, group: str, topic: str, partition: int) -> int:
        asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition]}]}
        answer = await self.world.ask(9, 8, groups=[asked])
        found = answer["groups"][0]
        if found.get("error_code"):
            return -2
        return int(found["topics"][0]["partitions"][0]["committed_offset"])

    # ---- share groups ------------------------------------------------------------------------------

    async def read_from_start(self, group: str) -> bool:
        """What the group reads begins with the first record there is."""
        row = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": 32, "resource_name": group, "configs": [row]}
        answer = await self.world.ask(44, 1, resources=[resource])
        return self.count(answer["responses"][0], f"configure {group}")

    async def share(self, group: str, name: str, member: str) -> None:
        """Take some records, accept most of them one by one, and go."""
        topic = self.model.topic(name)
        settled = self.model.settled.setdefault((group, name, 0), Settled())
        beat = await self.world.ask(
            76, 1, group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[name]
        )
        if not self.count(beat, "join a share group"):
            return
        places = [{"topic_id": topic.id, "partitions": [{"partition_index": 0}]}]
        me: dict[str, Any] = {"group_id": group, "member_id": member}
        fetch = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "max_records": 6}
        taken: list[int] = []
        epoch = 0
        for _ in range(3):  # the first may come before the group has begun to read
            answer = await self.world.ask(
                78,
                1,
                **me,
                **fetch,
                batch_size=6,
                share_session_epoch=epoch,
                topics=places if epoch == 0 else [],
            )
            if not self.count(answer, "share fetch"):
                return
            epoch += 1
            for row in (row for each in answer["responses"] for row in each["partitions"]):
                for got in row.get("acquired_records", ()):
                    taken += range(got["first_offset"], got["last_offset"] + 1)
            if taken:
                break
            await self.world.wait(0.1)
        from .oracle import require

        again = settled.sure & set(taken)
        if self.world.has_told("__share_group_state"):
            again = set()  # it was damaged, and said so
        require(not again, f"{name}: {sorted(again)} were accepted, and are given out again")
        for offset in taken:
            if self.random.random() < 0.2:
                continue
            settled.doubtful.add(offset)
            one = {"first_offset": offset, "last_offset": offset, "acknowledge_types": [1]}
            part = {"partition_index": 0, "acknowledgement_batches": [one]}
            answer = await self.world.ask(
                79,
                1,
                **me,
                share_session_epoch=epoch,
                topics=[{"topic_id": topic.id, "partitions": [part]}],
            )
            if not self.count(answer, "share acknowledge"):
                return
            epoch += 1
            row = answer["responses"][0]["partitions"][0]
            if self.count(row, "share acknowledge"):
                settled.sure.add(offset)
                settled.doubtful.discard(offset)
        await self.world.ask(79, 1, **me, share_session_epoch=-1, topics=[])
        await self.world.ask(76, 1, group_id=group, member_id=member, member_epoch=-1)

    async def delete_share_state(self) -> None:
        """Somebody deletes a topic of the broker's; if that is let be, what was settled is forgotten."""
        for settled in self.model.settled.values():
            settled.doubtful |= settled.sure
            settled.sure.clear()
        answer = await self.world.ask(20, 6, topics=[{"name": "__share_group_state"}], timeout=1000)
        if not failed(answer["responses"][0]):
            await self.world.wait(65)  # it is made anew within a minute

    # ---- excision ----------------------------------------------------------------------------------

    async def excise(self, name: str, key: bytes) -> None:
        if not await self.ensure(REQUESTS, 1, **KEPT_FOR_EVER):
            return
        topic = self.model.topic(name)
        identity = f"excision-{self.timestamp()}"
        topic.excised.setdefault(key, Fate.DOUBTFUL)
        request = excision_request(identity, name, key)
        if await self.produce(REQUESTS, 0, [(identity.encode(), request)]):
            self.model.excisions[identity] = topic, key


def _renamed(row: Any) -> Any:
    return {"error_code": row["partition_error_code"]}


def _poisoned(data: bytes) -> bytes:
    """The same batch, its checksum right, the second record's length of its key a lie."""
    import struct

    import crc32c

    changed = bytearray(data)
    middle = data.index(b"poison-1") - 1 if b"poison-1" in data else None
    if middle is None:  # compressed: nothing to see
        return data
    changed[middle] = 0x7F  # a key of -64 bytes
    changed[17:21] = struct.pack(">I", crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)
