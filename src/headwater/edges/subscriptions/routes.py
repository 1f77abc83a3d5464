"""/webhooks: subscriptions by API, as OpenAPI describes them. Who may:

    see one, and its deliveries     `read` or `admin` of `webhook:NAME`
    all else                        `admin` of `webhook:NAME`, and `read` of its topic

A scope of webhooks must be named (`webhook:*`): `*` alone does not reach them, for by one records leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, TypeVar

import msgspec
import orjson
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.namespace import is_own
from headwater.edges import bodies
from headwater.edges.answers import responses
from headwater.edges.caller import SENDER, may, refused, who
from headwater.edges.context import Context
from headwater.edges.errors import Conflict, Invalid, Overloaded
from headwater.edges.subscriptions import entry as entries
from headwater.edges.subscriptions import history, upkeep
from headwater.edges.subscriptions.directory import now_ms
from headwater.edges.subscriptions.entry import Entry, Signing, new_id, new_salt
from headwater.edges.subscriptions.runner import Runner
from headwater.edges.tokens import Need
from headwater.edges.webhooks.subscriber import begin_at

BODY_BYTES_MAX = 64 * 1024
PINGS_MAX = 4
"""Test deliveries of one sender at once."""
OVERLAP_S_MAX = 30 * 86_400
Json = dict[str, object]
Shape = TypeVar("Shape", bound=msgspec.Struct)
Name = Annotated[str, Path(pattern=f"^{entries.NAME}$")]
_ONE = "/webhooks/{name}"
_AGAIN = "/webhooks/{name}/deliveries/{delivery}/again"


def add_routes(router: APIRouter, context: Context, runner: Runner) -> None:
    made = _Routes(context, runner)
    for method, path, handler, summary, answer, status, body in (
        ("GET", "/webhooks", made.all, "Subscriptions that one may see", entries.LIST, 200, None),
        ("POST", "/webhooks", made.create, "Subscribe", entries.MADE, 201, entries.NEW),
        ("GET", _ONE, made.one, "A subscription", entries.ONE, 200, None),
        ("PATCH", _ONE, made.change, "Change, pause or resume", entries.ONE, 200, entries.CHANGES),
        ("DELETE", _ONE, made.delete, "End a subscription", None, 204, None),
        (
            "POST",
            f"{_ONE}/secret",
            made.rotate,
            "A new secret; the old one signs on",
            entries.MADE,
            200,
            entries.OVERLAP,
        ),
        ("POST", f"{_ONE}/ping", made.ping, "A test delivery", history.ATTEMPT, 200, None),
        ("GET", f"{_ONE}/deliveries", made.history, "What was sent", history.HISTORY, 200, None),
        ("POST", _AGAIN, made.again, "Deliver one again", None, 202, None),
    ):
        router.add_api_route(
            path,
            handler,
            methods=[method],
            summary=summary,
            status_code=status,
            response_class=Response,
            responses=_answers(answer, status, responses(400, 403, 404, 409, 422, 429, 503)),
            openapi_extra=None if body is None else _described(body),
        )


class _Routes:
    """The routes, and what they share."""

    def __init__(self, context: Context, runner: Runner) -> None:
        self._log, self._appender = context.log, context.appender
        self._ask = context.asking.run
        self._file = frozenset(context.edges.webhooks)
        self._runner, self._directory = runner, runner.directory
        self._pings: Counter[str] = Counter()
        self._upkeep = runner.upkeep

    async def all(self, request: Request) -> Response:
        await self._directory.current()
        seen = [each for each in self._directory.all() if _sees(request, each.name)]
        return _answer({"webhooks": [self._shown(request, each) for each in seen]})

    async def one(self, request: Request, name: Name) -> Response:
        return _answer(self._shown(request, await self._seen(request, name)))

    async def create(self, request: Request) -> Response:
        self._upkeep.check()
        new = await _body(request, entries.New)
        self._check_scopes(request, new.name, new.topic)
        if new.name in self._file:
            raise Conflict(f"headwater.toml has a webhook {new.name!r}", hint="choose another name")
        salts = [msgspec.structs.asdict(new_salt(self._runner.settings))]
        told = {"id": new_id(), "made_by": who(request), "made_ms": now_ms(), "secrets": salts}
        entry = msgspec.convert({**msgspec.structs.asdict(new), **told}, Entry)
        await self._directory.check_new(entry)
        await self._appender.topics.find(new.topic)  # NotThere, before it is made
        group = upkeep.group_of(
            entry
        )  # at the end of this moment, not of when the delivery has begun
        await self._ask(lambda: begin_at(entry.start, self._log, group, entry.topic))
        try:
            await self._directory.add(entry)
        except (Conflict, Invalid, Overloaded):  # nothing was written
            self._upkeep.clear(entry)
            raise
        return _answer({**self._shown(request, entry), "secret": self._secret(entry)}, 201)

    async def change(self, request: Request, name: Name) -> Response:
        changes = await _body(request, entries.Changes)
        entry = await self._mine(request, name)
        given = msgspec.structs.asdict(changes).items()
        said = {key: value for key, value in given if value is not msgspec.UNSET}
        changed = await self._directory.change(name, entry.id, who(request), **said)
        return _answer(self._shown(request, changed))

    async def delete(
        self,
        request: Request,
        name: Name,
        discard: Annotated[bool, Query(description="Its dead letters, too")] = False,
    ) -> Response:
        self._upkeep.check()
        entry = await self._mine(request, name)
        waiting = 0 if discard else await self._ask(lambda: upkeep.dead(self._log, entry))
        if waiting:
            raise Conflict(
                f"{waiting} records could not be delivered and are kept in its dead letters",
                hint="replay them with headwater deadletters, or delete them, too: ?discard=true",
            )
        await self._directory.remove(entry, who(request))
        self._upkeep.clear(entry)
        return Response(status_code=204)

    async def rotate(self, request: Request, name: Name) -> Response:
        overlap_s = (await _body(request, entries.Rotation)).overlap_s
        if not 0 <= overlap_s <= OVERLAP_S_MAX:
            raise Invalid(f"overlap_s: from 0 to {OVERLAP_S_MAX}")
        entry = await self._mine(request, name)
        salt, until_ms = new_salt(self._runner.settings), now_ms() + overlap_s * 1000
        changed = await self._directory.rotate(name, entry.id, who(request), salt, until_ms)
        return _answer({**self._shown(request, changed), "secret": self._secret(changed)})

    async def ping(self, request: Request, name: Name) -> Response:
        entry = await self._mine(request, name)
        sender = SENDER.get()
        if self._pings[sender] >= PINGS_MAX:
            raise Overloaded("too many test deliveries of one sender at once", 5.0)
        self._pings[sender] += 1
        try:
            return _answer(msgspec.to_builtins(await self._runner.ping(entry)))
        finally:
            self._pings[sender] -= 1
            self._pings += Counter()  # without those who have none

    async def history(
        self,
        request: Request,
        name: Name,
        limit: Annotated[int, Query(ge=1, le=history.KEPT)] = 50,
        failed: Annotated[bool, Query(description="Only what was not taken")] = False,
    ) -> Response:
        entry = await self._seen(request, name)
        kept = self._runner.history.of(entry.id)
        found = [each for each in kept if not (failed and each.delivered)]
        return _answer({"deliveries": [msgspec.to_builtins(each) for each in found[:limit]]})

    async def again(
        self,
        request: Request,
        name: Name,
        delivery: Annotated[str, Path(max_length=300)],
    ) -> Response:
        entry = await self._mine(request, name)
        known = self._runner.history.of(entry.id)
        found = next((each for each in known if each.delivery == delivery), None)
        if found is None or found.offset < 0:
            raise Invalid(
                f"{delivery[:100]!r} is not in the history", hint=f"GET /webhooks/{name}/deliveries"
            )
        draft = await self._ask(lambda: upkeep.copied(self._log, entry, found))
        await self._appender.append(upkeep.again_topic(entry), [draft])
        return Response(status_code=202)

    def _shown(self, request: Request, entry: Entry) -> dict[str, object]:
        ends = [each.until_ms for each in entry.secrets[1:] if (each.until_ms or 0) > now_ms()]
        said = {**msgspec.to_builtins(entry), "old_secret_until_ms": ends[0] if ends else None}
        if not may(request, Need("admin", f"webhook:{entry.name}")):
            said["to"] = entry.place  # he may look, and has no use for a secret that stands in it
        return {key: each for key, each in said.items() if key not in ("secrets", "id", "start")}

    def _secret(self, entry: Entry) -> str:
        return Signing(entry, self._runner.settings, now_ms()).secrets()[0]

    async def _seen(self, request: Request, name: str) -> Entry:
        if not _sees(request, name):
            raise refused(request, Need("read", f"webhook:{name}"))
        return await self._directory.named(name)

    async def _mine(self, request: Request, name: str) -> Entry:
        self._check_scope(request, Need("admin", f"webhook:{name}"))
        entry = await self._directory.named(name)
        self._check_scope(request, Need("read", entry.topic))
        return entry

    def _check_scopes(self, request: Request, name: str, topic: str) -> None:
        self._check_scope(request, Need("admin", f"webhook:{name}"))
        if is_own(topic) or not may(request, Need("read", topic)):
            raise refused(request, Need("read", topic))

    def _check_scope(self, request: Request, need: Need) -> None:
        if not may(request, need):
            raise refused(request, need)


def _sees(request: Request, name: str) -> bool:
    return any(may(request, Need(way, f"webhook:{name}")) for way in ("read", "admin"))


async def _body(request: Request, shape: type[Shape]) -> Shape:
    body = await bodies.read(request, BODY_BYTES_MAX)
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except msgspec.ValidationError as error:
        raise Invalid(f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is no JSON: {error}") from None


def _answer(said: Mapping[str, object], status: int = 200) -> Response:
    return Response(orjson.dumps(said), status, media_type="application/json")


def _described(schema: Json) -> Json:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _answers(
    schema: Json | None, status: int, wrong: dict[int | str, dict[str, object]]
) -> dict[int | str, dict[str, object]]:
    fine: dict[str, object] = {"description": HTTPStatus(status).phrase}
    if schema is not None:
        fine["content"] = {"application/json": {"schema": schema}}
    return {**wrong, status: fine}
