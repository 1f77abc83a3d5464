"""The seam to MongoDB: all that is asked of a server, through pymongo, and its errors in our words.

Called by `source` only; the one file here that imports pymongo. Tokens and `_id`s leave as extended
JSON (bson.json_util), so that a position is JSON and comes back as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
import pymongo.errors
from bson import json_util
from bson.timestamp import Timestamp

from headwater.capture.errors import Gap, Interrupted, Misconfigured, Refused

AWAIT_MS = 400
_HISTORY_LOST = {280, 286}  # ChangeStreamFatalError, ChangeStreamHistoryLost
_OPTIONS = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL)


@dataclass(frozen=True)
class Facts:
    """What `check` wants to know."""

    version: tuple[int, ...]
    replica_set: bool
    collections: tuple[str, ...]
    pre_images: frozenset[str]


class PymongoDriver:
    """One database of a deployment, and the collections of it that are wanted (none named: all)."""

    def __init__(self, url: str, collections: Sequence[str]) -> None:
        self._wanted = tuple(collections)
        with plainly():
            # Each retry is the runner's: it goes on from what the log has.
            self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
                url, serverSelectionTimeoutMS=5_000, retryReads=True, tz_aware=True
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
            collections=tuple(sorted(info["name"] for info in infos)),
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
            names = sorted(
                info["name"]
                for info in infos
                if info.get("type", "collection") == "collection"
                and not info["name"].startswith("system.")
            )
        return [name for name in names if not self._wanted or name in self._wanted]

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

    def documents(self, collection: str, after: str | None, limit: int) -> list[dict[str, Any]]:
        """Some documents in the order of `_id`, behind the one with this `_id` (extended JSON)."""
        query: dict[str, Any] = {} if after is None else {"_id": {"$gt": from_json(after)}}
        with plainly():
            return list(self._database[collection].find(query).sort("_id", 1).limit(limit))

    def watch(
        self, token: str | None, time: tuple[int, int], *, invalidated: bool, pre_images: bool
    ) -> Iterator[tuple[dict[str, Any] | None, str | None, bool]]:
        """Events for ever, each with the token behind it, and whether more are at hand already; None
        as event: nothing for AWAIT_MS."""
        options: dict[str, Any] = {"full_document": "updateLookup", "max_await_time_ms": AWAIT_MS}
        if pre_images:
            options["full_document_before_change"] = "whenAvailable"
        if token is None:
            options["start_at_operation_time"] = Timestamp(*time)
        else:
            options["start_after" if invalidated else "resume_after"] = from_json(token)
        with plainly():
            if len(self._wanted) == 1:
                self._stream = self._database[self._wanted[0]].watch(**options)
            else:
                wanted = (
                    [{"$match": {"ns.coll": {"$in": list(self._wanted)}}}] if self._wanted else []
                )
                self._stream = self._database.watch(wanted, **options)
            while True:
                event = self._stream.try_next()
                after = self._stream.resume_token
                # pymongo has no public name for it; without it, batches wait for AWAIT_MS.
                at_hand = bool(getattr(getattr(self._stream, "_cursor", None), "_data", True))
                yield event, None if after is None else to_json(after), at_hand

    def close(self) -> None:
        with contextlib.suppress(pymongo.errors.PyMongoError):
            if self._stream is not None:
                self._stream.close()
        self._client.close()


def to_json(value: Any) -> str:
    """Any BSON value as canonical extended JSON: comes back as the same type."""
    return json_util.dumps(value, json_options=_OPTIONS)


def from_json(text: str) -> Any:
    return json_util.loads(text)


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """pymongo's errors in our words."""
    try:
        yield
    except pymongo.errors.OperationFailure as error:
        if error.code in _HISTORY_LOST:
            raise Gap(
                "the oplog no longer has the changes that come next",
                hint="begin anew with: headwater capture run NAME --resnapshot; "
                "and give the oplog more room",
            ) from error
        if error.has_error_label("ResumableChangeStreamError") or error.code in (91, 189, 11600):
            raise Interrupted(f"MongoDB: {error.details or error}") from error
        raise Refused(
            f"MongoDB refuses: {error}", hint="see what is missing: headwater capture check NAME"
        ) from error
    except pymongo.errors.ConnectionFailure as error:
        raise Interrupted(f"MongoDB is away: {error}"[:300]) from error
    except (pymongo.errors.ConfigurationError, pymongo.errors.InvalidURI) as error:
        raise Misconfigured(f"MongoDB: {error}", hint="look at `from` of the capture") from error
