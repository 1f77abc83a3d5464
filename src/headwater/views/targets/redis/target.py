"""Views in Redis: `redis://HOST:PORT/DB`, keys that begin with the view's name.

Made by the registry; called by the runner and by every command that opens a view. Tasks write their rows
under staging keys, in parallel; the commit is one Lua script that checks the writer's epoch and the batch,
renames the rows to their places and notes the position. Redis runs nothing else meanwhile, and logs the
script as one transaction, so with `appendonly yes` and `appendfsync always` a kill loses nothing.

    NAME:current     what the keys of the visible version begin with, as in `customers:v1:`
    NAME:v1:KEY      a row (see `forms`)

Redis has no snapshots: whoever reads a whole view at one position holds its commits back meanwhile.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.views.targets.libraries import missing

try:
    import pyarrow as pa
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, AuthorizationError
    from redis.retry import Retry
except ModuleNotFoundError as error:
    raise missing(error, "redis", "redis") from error

from headwater.views.targets.contract import (
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Shape,
    Target,
    Unavailable,
)
from headwater.views.targets.places import REDIS, must_be_free
from headwater.views.targets.redis import scripts
from headwater.views.targets.redis.forms import Form, batches, form_of
from headwater.views.targets.redis.protocol import pushes, send
from headwater.views.targets.redis.reader import Reader
from headwater.views.targets.redis.scripts import BOOK
from headwater.views.targets.schema_fit import misfit, must_fit
from headwater.views.targets.staged_files import Admission

CHUNK = 1000
STAGE_ROWS = 5000
PATIENCE_S = 60.0
"""How long a commit waits for readers."""
TIMEOUT_S = 60.0
_PASSING = ("OOM", "MISCONF", "BUSY", "LOADING", "NOREPLICAS", "READONLY", "MASTERDOWN", "TRYAGAIN")


class RedisTarget(Target):
    """A view as keys of one Redis database."""

    kinds = frozenset({Kind.UPSERT, Kind.APPEND})

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        self._id = f"{shape.view}/{shape.version}"
        self._held = f"headwater_held:{self._id}"
        self._staged = f"headwater_staged:{self._id}"

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        if re.search(r":v\d+(:|$)", self.name):
            raise Misfit(
                f"{self.name!r} reads as a version of another view", hint="name it otherwise"
            )
        if self.shape.view == "place":
            raise Misfit("the book in Redis uses the name 'place' itself", hint="rename the view")
        must_be_free(self.name, "Redis", (), REDIS)
        end = "" if self.shape.kind is Kind.APPEND else ":"
        place = f"{self.name}:v{self.shape.version}{end}"
        columns = scripts.columns(self.shape)
        form = {"form": self._form.name, "key": list(self.shape.key), "columns": columns}
        words = [self.shape.view, self.shape.version, self.name, place, json.dumps(form)]
        with self._connected() as client:
            said, what = client.eval(scripts.CREATE, 1, BOOK, *words)
        if said == "taken":
            raise Misfit(
                f"the keys {self.name}:… hold the view {what!r}",
                hint="name others with the option table",
            )
        if said == "foreign":
            raise Misfit(
                f"Redis has a key {what!r} that is not a view's",
                hint="remove it, or name others with the option table",
            )
        if said == "other":
            where = f"version {self.shape.version} of {self.name} in Redis"
            must_fit(self.shape, where, json.loads(what)["columns"], columns)
            raise misfit(self.shape, where, f"it has another form or key: {what}")

    def can_widen(self) -> bool:
        return self._form.name != "timeline"

    def widen(self) -> None:
        with self._connected() as client:
            scripts.widen(client, self._id, scripts.columns(self.shape))

    def claim(self) -> int:
        with self._connected() as client:
            epoch = client.eval(scripts.CLAIM, 1, BOOK, self._id)
        return int(self._there(epoch))

    def applied(self) -> Applied | None:
        with self._connected() as client:
            return scripts.applied(client.hmget(BOOK, self._fields))

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        yield from self._form.refused(rows)

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        form = self._form
        place = f"{self._staged}:{batch}:{part}:{uuid.uuid4().hex}"
        admission = Admission(self.shape, part, self.refused)
        count = 0
        with self._connected() as client:
            client.sadd(self._staged, place)  # first of all: what is listed here can be cleared
            for chunk in batches(admission.admitted(rows), STAGE_ROWS):
                commands, entries = form.stage(place, count, chunk)
                # First the entries: by them, what a task leaves behind is found.
                send(client, [pushes(place, entries), commands])
                count += chunk.num_rows
            if client.llen(place) != count:
                raise Unavailable("Redis has not taken all rows, perhaps it is full")
        return Part(part, place, count, tuple(admission.refused))

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        with self._connected() as client:
            said = self._run(client, "commit", applied, parts)
            if said == "fenced":
                raise Fenced(f"another writer has taken over {self._id} in Redis")
            self._clear(client, applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""
        with self._connected() as client:
            done = self._run(client, "correct", applied, parts) == "done"
            for part in parts:
                self._unstage(client, part.place)
        return done

    def _run(self, client: Any, what: str, applied: Applied, parts: Sequence[Part]) -> str:
        words: list[Any] = [
            what,
            self._id,
            applied.epoch,
            applied.batch,
            applied.position.to_json(),
        ]
        words.append(self._form.name)
        for part in parts:
            words += (part.place, part.rows)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            said = client.eval(scripts.COMMIT, 3, BOOK, self._held, self._staged, *words)
            if said == "absent":
                raise self._absent()
            if said == "gone":
                raise Unavailable(f"a staged part of {self._id} is not in Redis any more")
            if said != "held":
                return str(said)
            if time.monotonic() > deadline:
                raise Unavailable(f"readers of {self._id} hold it back")
            time.sleep(0.02)  # between two questions

    def _clear(self, client: Any, through: int) -> None:
        for place in client.smembers(self._staged):
            batch = int(place.removeprefix(f"{self._staged}:").split(":")[0])
            if 0 <= batch <= through:
                self._unstage(client, place)

    def _unstage(self, client: Any, place: str) -> None:
        count = client.llen(place)
        for begin in range(0, count, CHUNK):
            client.unlink(*(f"{place}:{n}" for n in range(begin, min(begin + CHUNK, count))))
        client.unlink(place)
        client.srem(self._staged, place)

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._connected() as client:
            reader = Reader(client, self._form, self._place(client), self._held)
            if keys is not None:
                book, rows = reader.of(keys, self._fields)
                yield scripts.applied(book), iter([rows])
                return
            with reader.holding() as batches:
                yield scripts.applied(client.hmget(BOOK, self._fields)), batches

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        with self._connected() as client:
            book = client.hgetall(BOOK)
        places = re.compile(re.escape(self.shape.view) + r"/(\d+)/place")
        numbers = sorted(int(found[1]) for found in map(places.fullmatch, book) if found)
        words = ("epoch", "batch", "position")
        return {
            number: scripts.applied([book.get(f"{self.shape.view}/{number}/{w}") for w in words])
            for number in numbers
        }

    def current(self) -> int | None:
        with self._connected() as client:
            found = client.hget(BOOK, f"{self.shape.view}/current")
        return None if found is None else int(found)

    def switch(self) -> None:
        words = [self.shape.view, self.shape.version, self.name]
        with self._connected() as client:
            self._there(client.eval(scripts.SWITCH, 1, BOOK, *words))

    def drop(self) -> None:
        if self.current() == self.shape.version:
            raise Misfit(f"readers see version {self.shape.version} of {self.name}")
        with self._connected() as client:
            place = client.hget(BOOK, f"{self._id}/place")
            if place is None:
                return
            client.eval(scripts.CLAIM, 1, BOOK, self._id)  # nobody writes to it any more
            for names in Reader(client, self._form, place, self._held).names():
                if names:
                    client.unlink(*names)
            for staged in client.smembers(self._staged):
                self._unstage(client, staged)
            words = ("place", "shape", "epoch", "batch", "position")
            client.hdel(BOOK, *(f"{self._id}/{word}" for word in words))

    # ---- the server -------------------------------------------------------------------------------

    @property
    def _form(self) -> Form:
        return form_of(self.shape)

    @property
    def _fields(self) -> list[str]:
        return [f"{self._id}/{word}" for word in ("epoch", "batch", "position")]

    def _place(self, client: Any) -> str:
        return str(self._there(client.hget(BOOK, f"{self._id}/place")))

    def _there(self, found: Any) -> Any:
        if found is None:
            raise self._absent()
        return found

    def _absent(self) -> Misfit:
        return Misfit(f"Redis has no version {self.shape.version} of the view {self.shape.view!r}")

    def _refused(self, error: redis.RedisError) -> Misfit:
        return Misfit(
            f"Redis does not take the view {self.shape.view!r}: {error}",
            hint="correct the address's user and rights, or what was changed by hand under these keys",
        )

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        client = redis.Redis.from_url(
            self.address,
            decode_responses=True,
            socket_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # the runner tries again, and knows what it has done
        )
        try:
            yield client
        except (AuthenticationError, AuthorizationError) as error:
            raise self._refused(error) from error
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Unavailable(f"Redis does not answer: {error}") from error
        except redis.ResponseError as error:
            if str(error).startswith(_PASSING):
                raise Unavailable(f"Redis refuses for now: {error}") from error
            raise self._refused(error) from error
        finally:
            client.close()
