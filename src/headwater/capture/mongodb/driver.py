"""The seam to MongoDB: all that is asked of a server, through pymongo, and its errors in our words.

Called by `source` only; the one file here that imports pymongo. Tokens and `_id`s leave as extended
JSON (bson.json_util), so that a position is JSON and comes back as it was.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pymongo
import pymongo.errors
from bson import MaxKey, json_util
from bson.codec_options import DatetimeConversion
from bson.timestamp import Timestamp

from headwater.capture.errors import Gap, Interrupted, Misconfigured, SourceRefused
from headwater.capture.mongodb.preflight import Document, Facts

AWAIT_MS = 400
TOO_LARGE = 10334  # BSONObjectTooLarge: an event of more than 16 MB
STEPS_MAX = 1_000
_HISTORY_LOST = {280, 286}  # ChangeStreamFatalError, ChangeStreamHistoryLost
_OPTIONS = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


class PymongoDriver:
    """One database of a deployment, and the collections of it that are wanted (none named: all)."""

    def __init__(self, url: str, collections: Sequence[str]) -> None:
        self._wanted = tuple(collections)
        with plainly():
            # Each retry is the runner's: it goes on from what the log has.
            self._client: pymongo.MongoClient[Document] = pymongo.MongoClient(
                url,
                serverSelectionTimeoutMS=5_000,
                retryReads=True,
                tz_aware=True,
                # A server takes years that Python does not know, and text that is not UTF-8.
                datetime_conversion="DATETIME_AUTO",
                unicode_decode_error_handler="replace",
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

    def facts(self) -> Facts:
        with plainly():
            version = tuple(self._client.server_info()["versionArray"][:3])
            hello = self._client.admin.command("isMaster")  # the name that old servers know too
            infos = list(self._database.list_collections())
        return Facts(
            version=version,
            replica_set="setName" in hello or hello.get("msg") == "isdbgrid",
            collections=tuple(sorted(info["name"] for info in infos if _has_changes(info))),
            others={
                info["name"]: info.get("type", "collection")
                for info in infos
                if not _has_changes(info) and not is_passing(info["name"])
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
            names = sorted(info["name"] for info in infos if _has_changes(info))
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

    def estimated_count(self, collection: str) -> int:
        with plainly():
            return int(self._database[collection].estimated_document_count())

    def documents(self, collection: str, after: str | None, limit: int) -> list[Document]:
        """Some documents in the order of `_id`, behind the one with this `_id` (extended JSON).

        By the bounds of the index: `$gt` would find only what is of the same BSON type."""
        with plainly():
            table = self._database[collection]
            if after is None:
                return list(table.find().sort("_id", 1).limit(limit))
            last = from_json(after)
            if last == MaxKey():
                return []
            behind = table.find().min([("_id", last)]).hint([("_id", 1)])
            documents = list(behind.sort("_id", 1).limit(limit + 1))
            if len(documents) <= 1:  # such bounds end before MaxKey
                documents += table.find({"_id": MaxKey()})
        return [one for one in documents if to_json(one["_id"]) != after][:limit]

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
        pipeline = [_of(self._wanted)] if self._wanted else []
        if lean:
            pipeline.append({"$unset": "updateDescription"})
        with plainly(but=TOO_LARGE):
            # Of the whole database: what is renamed to a collection is no event of that collection.
            self._stream = self._database.watch(pipeline, **start, **options)
            while True:
                event = self._stream.try_next()
                # pymongo has no public name for it; without it, batches wait for AWAIT_MS.
                at_hand = bool(getattr(getattr(self._stream, "_cursor", None), "_data", True))
                yield event, self._stream.resume_token, at_hand

    def close(self) -> None:
        with contextlib.suppress(pymongo.errors.PyMongoError):
            if self._stream is not None:
                self._stream.close()
        self._client.close()


_PASSING = re.compile(
    r"system\.|tmp\.(agg_out|mr)\.|tmp[A-Za-z0-9]{5}\.(renameCollection$|convertToCapped\.)"
)


def is_passing(collection: str) -> bool:
    """The server's own; or what it fills before it gives it a collection's name ($out)."""
    return _PASSING.match(collection) is not None


def _has_changes(info: Mapping[str, object]) -> bool:
    """A collection that is no view and no time series, which have no change streams."""
    return info.get("type", "collection") == "collection" and not is_passing(str(info["name"]))


def _of(collections: Sequence[str]) -> Document:
    names = {"$in": list(collections)}
    whole = {"operationType": {"$in": ["dropDatabase", "invalidate"]}}
    return {"$match": {"$or": [{"ns.coll": names}, {"to.coll": names}, whole]}}


def to_json(value: Any) -> str:
    """Any BSON value as canonical extended JSON: comes back as the same type."""
    return json_util.dumps(value, json_options=_OPTIONS)


def from_json(text: str) -> Any:
    return json_util.loads(text, json_options=_OPTIONS)


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
            hint="begin anew with: headwater capture run NAME --resnapshot; "
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
    if error.has_error_label("ResumableChangeStreamError") or error.code in (91, 189, 11600):
        return Interrupted(f"MongoDB: {said}")
    return SourceRefused(
        f"MongoDB refuses: {said}", hint="see what is missing: headwater capture check NAME"
    )
