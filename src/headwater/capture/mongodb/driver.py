"""The seam to MongoDB: all that is asked of a server, through pymongo, and its errors in our words.

Called by `source` only; the one file here that imports pymongo. Tokens and `_id`s leave as extended
JSON (bson.json_util), so that a position is JSON and comes back as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pymongo
import pymongo.errors
from bson import MaxKey
from bson.timestamp import Timestamp
from pymongo.read_concern import ReadConcern

from headwater.capture.errors import Gap, Interrupted, Misconfigured, SourceRefused
from headwater.capture.mongodb.extended_json import RAW, batch_of, decoded, from_json, to_json
from headwater.capture.mongodb.preflight import (
    Document,
    Facts,
    events_of,
    has_changes,
    is_passing,
)

AWAIT_MS = 400
SILENCE_S = 60
TOO_LARGE = 10334  # BSONObjectTooLarge: an event of more than 16 MB
STEPS_MAX = 1_000
# Elections, starts and stops, killed cursors and operations, members that are too busy.
_FOR_NOW = {6, 7, 43, 50, 89, 91, 134, 189, 237, 246, 262, 9001, 10107, 11600, 11601, 11602, 13436}
_HISTORY_LOST = {280, 286}  # ChangeStreamFatalError, ChangeStreamHistoryLost


class PymongoDriver:
    """One database of a deployment, and the collections of it that are wanted (none named: all)."""

    def __init__(self, url: str, collections: Sequence[str], silence_s: int = SILENCE_S) -> None:
        self._wanted = tuple(collections)
        with plainly():
            # Each retry is the runner's: it goes on from what the log has.
            self._client: pymongo.MongoClient[Document] = pymongo.MongoClient(
                url,
                serverSelectionTimeoutMS=5_000,
                # A network that swallows everything looks like a quiet server, but for this.
                socketTimeoutMS=1_000 * silence_s,
                connectTimeoutMS=min(20_000, 1_000 * silence_s),
                retryReads=True,
                tz_aware=True,
            )
            database = pymongo.uri_parser.parse_uri(url)["database"]
        if not database:
            self._client.close()
            raise Misconfigured(
                "the address names no database", hint="write mongodb://host/DATABASE"
            )
        self.database: str = database
        self._database = self._client[database]
        self._stream: Any = None
        self._session: pymongo.client_session.ClientSession | None = None

    def facts(self) -> Facts:
        with plainly():
            version = tuple(self._client.server_info()["versionArray"][:3])
            hello = self._client.admin.command("isMaster")  # the name that old servers know too
            infos = list(self._database.list_collections())
        return Facts(
            version=version,
            replica_set="setName" in hello or hello.get("msg") == "isdbgrid",
            collections=tuple(sorted(info["name"] for info in infos if has_changes(info))),
            others={
                info["name"]: info.get("type", "collection")
                for info in infos
                if not has_changes(info) and not is_passing(info["name"])
            },
            pre_images=frozenset(
                info["name"]
                for info in infos
                if info.get("options", {}).get("changeStreamPreAndPostImages", {}).get("enabled")
            ),
        )

    def collections(self) -> list[str]:
        """Wanted ones that exist, without views and system collections."""
        with plainly():
            infos = self._database.list_collections()
            names = sorted(info["name"] for info in infos if has_changes(info))
        return [name for name in names if self.wants(name)]

    def wants(self, collection: str) -> bool:
        """Whether it is captured."""
        return not is_passing(collection) and (not self._wanted or collection in self._wanted)

    def operation_time(self) -> tuple[int, int]:
        """The server's logical time now: where a change stream is to begin."""
        with plainly():
            reply = self._client.admin.command("isMaster")
            time = reply.get("operationTime")
            if time is None:  # not a replica set: no logical time, but a clock
                return int(reply["localTime"].timestamp()), 0
        return time.time, time.inc

    def oplog_place(self) -> str:
        """Where the server's oplog is now, and how far back it goes, where the user may know."""
        now_s, _ = self.operation_time()
        said = f"the server is at {datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        try:
            first = self._client.local["oplog.rs"].find_one(sort=[("$natural", 1)])
        except pymongo.errors.PyMongoError:
            return said
        kept_s = 0 if first is None else now_s - first["ts"].time
        return f"{said}; its oplog goes back {kept_s / 3600:,.1f} hours"

    def read_behind(self, time: tuple[int, int]) -> None:
        """From now on documents are read as they are at that time or later, whichever member is asked.

        The stream begins there: a secondary that is further behind would show documents from before it."""
        with plainly():
            if self._session is None:
                self._session = self._client.start_session(causal_consistency=True)
            self._session.advance_operation_time(Timestamp(*time))

    def replica_lag_s(self) -> float | None:
        """Of the secondary that is furthest behind the primary; None where the user may not know it."""
        try:
            members = self._client.admin.command("replSetGetStatus")["members"]
        except pymongo.errors.PyMongoError:
            return None
        first, second = ([m["optimeDate"] for m in members if m["state"] == n] for n in (1, 2))
        return (first[0] - min(second)).total_seconds() if first and second else None

    def estimated_count(self, collection: str) -> int:
        with plainly():
            return int(self._database[collection].estimated_document_count())

    def documents(
        self, collection: str, after: str | None, limit: int, where: str | None = None
    ) -> list[Document]:
        """Some documents in the order of `_id`, behind the one with this `_id` (extended JSON).

        By the bounds of the index: `$gt` would find only what is of the same BSON type. Only what a
        majority has: the rest may be rolled back, and no change stream would ever say so."""
        with plainly():
            majority = ReadConcern("majority")
            table = self._database.get_collection(collection, RAW, read_concern=majority)
            session, wanted = self._session, {} if where is None else from_json(where)
            if after is None:
                return batch_of(table.find(wanted, session=session).sort("_id", 1).limit(limit))
            last = from_json(after)
            if last == MaxKey():
                return []
            behind = table.find(wanted, session=session).min([("_id", last)]).hint([("_id", 1)])
            found = batch_of(behind.sort("_id", 1).limit(limit + 1), after)
            if not found:  # such bounds end before MaxKey
                greatest = {"$and": [wanted, {"_id": MaxKey()}]}
                found = batch_of(table.find(greatest, session=session))
        return found[:limit]

    def watch(
        self, token: str | None, time: tuple[int, int], *, invalidated: bool, pre_images: bool
    ) -> Iterator[tuple[Document | None, str | None, bool]]:
        """Events for ever, each with the token behind it, and whether more are at hand already; None
        as event: nothing for AWAIT_MS."""
        start: Document = {"start_at_operation_time": Timestamp(*time)}
        if token is not None:
            start = {"start_after" if invalidated else "resume_after": from_json(token)}
        steps = 0
        """Events that are still to be fetched one by one, to find the one that is too large."""
        lean = False
        while True:
            try:
                for event, after, at_hand in self._events(start, pre_images, bool(steps), lean):
                    if after is not None:
                        start = {"resume_after": after}
                    yield event, None if after is None else to_json(after), at_hand
                    if event is not None and steps:
                        steps = 0 if lean else steps - 1
                        lean = False
                        break
            except pymongo.errors.OperationFailure as error:
                if error.code != TOO_LARGE or lean:
                    raise translated(error) from error
                lean, steps = bool(steps), steps or STEPS_MAX

    def _events(
        self, start: Document, pre_images: bool, one_by_one: bool, lean: bool
    ) -> Iterator[tuple[Document | None, Any, bool]]:
        """`lean`: without what makes an event larger than a document, so that any event fits."""
        options: Document = {"full_document": "updateLookup", "max_await_time_ms": AWAIT_MS}
        if pre_images and not lean:
            options["full_document_before_change"] = "whenAvailable"
        if one_by_one:
            options["batch_size"] = 1
        pipeline = [events_of(self._wanted)] if self._wanted else []
        if lean:
            pipeline.append({"$unset": "updateDescription"})
        with plainly(but=TOO_LARGE):
            # Of the whole database: what is renamed to a collection is no event of that collection.
            self._stream = self._database.with_options(RAW).watch(pipeline, **start, **options)
            while True:
                event = self._stream.try_next()
                # pymongo has no public name for it; without it, batches wait for AWAIT_MS.
                at_hand = bool(getattr(getattr(self._stream, "_cursor", None), "_data", True))
                yield event and decoded(event), self._stream.resume_token, at_hand

    def close(self) -> None:
        with contextlib.suppress(pymongo.errors.PyMongoError):
            if self._stream is not None:
                self._stream.close()
            if self._session is not None:
                self._session.end_session()
        self._client.close()


@contextlib.contextmanager
def plainly(but: int | None = None) -> Iterator[None]:
    """pymongo's errors in our words; `but`: a code of the server that somebody else looks at."""
    try:
        yield
    except pymongo.errors.OperationFailure as error:
        if but is not None and error.code == but:
            raise
        raise translated(error) from error
    except pymongo.errors.ConnectionFailure as error:
        raise Interrupted(f"MongoDB is away: {error}"[:300]) from error
    except (pymongo.errors.ConfigurationError, pymongo.errors.InvalidURI) as error:
        raise Misconfigured(f"MongoDB: {error}", hint="look at `from` of the capture") from error


def translated(error: pymongo.errors.OperationFailure) -> Exception:
    said = str((error.details or {}).get("errmsg") or error)[:300]
    if error.code in _HISTORY_LOST:
        return Gap(
            "the oplog no longer has the changes that come next",
            hint="start over with: headwater capture run NAME --resnapshot; "
            "and give the oplog more room",
        )
    if error.code == 18:
        return SourceRefused(f"MongoDB refuses the login: {said}", hint="correct `from`")
    if error.code == 13:
        return SourceRefused(
            f"MongoDB does not allow it: {said}",
            hint="give the user the role `read` on the database: "
            'db.grantRolesToUser("user", ["read"])',
        )
    if error.has_error_label("ResumableChangeStreamError") or error.code in _FOR_NOW:
        return Interrupted(f"MongoDB: {said}")
    return SourceRefused(
        f"MongoDB refuses: {said}", hint="see what is missing: headwater capture check NAME"
    )
