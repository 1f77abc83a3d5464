"""What every rule is written with: asking for permission, and putting answers together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.internal_topics import PREFIX, holds_secrets
from headwater.broker.registry import NO_ANSWER, Context, Handler, Later, Response
from headwater.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.broker.security.authorizer import Authorizer, denied, denied_more
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Result = Response | Later | Awaitable[Response]
Rule = Callable[["Asker", Any, Handler], Result]
Row = dict[str, Any]
T = TypeVar("T")

TOPIC_REFUSED = ErrorCode.topic_authorization_failed
GROUP_REFUSED = ErrorCode.group_authorization_failed
CLUSTER_REFUSED = ErrorCode.cluster_authorization_failed
TRANSACTION_REFUSED = ErrorCode.transactional_id_authorization_failed
NOT_ASKED = -(2**31)
"""In a bit field of operations: the client did not ask for it."""
_O = Operation
REFUSALS_LOGGED_MAX = 20
"""Of one request: a line for each of thousands of names would keep the event loop busy, and fill the disk."""
_CHANGES = (_O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.ALTER_CONFIGS)


class Asker:
    """Who asks, and what they may do."""

    __slots__ = ("_authorizer", "_refusals", "broker", "context")

    def __init__(self, authorizer: Authorizer, broker: Broker, context: Context) -> None:
        self._authorizer = authorizer
        self._refusals = 0
        self.broker = broker
        self.context = context

    @property
    def version(self) -> int:
        return self.context.api_version

    def may(
        self, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether this is allowed; a refusal is logged, unless only the answer is to be filtered."""
        who, host = self.context.principal, self.context.client_host
        if self._authorizer.allows(who, host, operation, kind, name):
            return True
        if not quiet:
            self._refusals += 1
            if self._refusals <= REFUSALS_LOGGED_MAX:
                denied(who, host, operation, kind, name)
            elif self._refusals == REFUSALS_LOGGED_MAX + 1:
                denied_more(who, host)
        return False

    def cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def group(self, operation: Operation, name: str | None, *, quiet: bool = False) -> bool:
        """`name` may be missing in a request for share groups: nobody's group."""
        return self.may(operation, ResourceType.GROUP, name or "", quiet=quiet)

    def topic(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        """Whoever writes to a topic that steers the broker (a request to excise records, say) must
        also be allowed to alter the broker: "may write to every topic" does not mean that."""
        if operation in _CHANGES and not self._may_steer(name, quiet):
            return False
        return self.may(operation, ResourceType.TOPIC, name, quiet=quiet)

    def new_topic(self, name: str) -> bool:
        """Whether a topic may be made: Create, on the cluster or on the topic; one that steers the
        broker takes more, however the right to create was given."""
        if not self._may_steer(name, quiet=False):
            return False
        return self.cluster(Operation.CREATE, quiet=True) or self.topic(Operation.CREATE, name)

    def _may_steer(self, name: str, quiet: bool) -> bool:
        if not name.startswith(PREFIX) or holds_secrets(name):
            return True
        return self.cluster(Operation.ALTER, quiet=quiet)

    def transaction(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name, quiet=quiet)

    async def somewhere(self, operation: Operation, kind: ResourceType) -> bool:
        who, host = self.context.principal, self.context.client_host
        monotonic = self.broker.supervisor.monotonic
        return await self._authorizer.allows_somewhere(who, host, operation, kind, monotonic)

    def operations(self, kind: ResourceType, name: str) -> int:
        context = self.context
        return self._authorizer.operations(context.principal, context.client_host, kind, name)

    def topic_name(self, item: Any) -> str | None:
        """The name of a topic that a request names, or names by its id; None: nobody's id."""
        for field in ("name", "topic", "topic_name"):
            name = getattr(item, field, None)
            if name:
                return str(name)
        topic = self.broker.catalogue.by_id.get(getattr(item, "topic_id", None))  # type: ignore[arg-type]
        return None if topic is None else topic.name

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """One after the other, however many there are: others are served in between."""
        return in_turns(items, self.broker.supervisor.monotonic)

    def ask(self, request: Any, inner: Handler) -> Result:
        """Let the handler answer."""
        return inner(self.broker, request, self.context)

    def split(self, operation: Operation, items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        """Topics of a request that may, and may not, be used so. An id that no topic has may: the
        handler answers that."""
        allowed: list[Any] = []
        refused: list[Any] = []
        for item in items:
            name = self.topic_name(item)
            may = name is None or self.topic(operation, name)
            (allowed if may else refused).append(item)
        return allowed, refused


def free(asker: Asker, request: Any, inner: Handler) -> Result:
    """Everybody may."""
    return asker.ask(request, inner)


def then(result: Result, change: Callable[[Row], Row]) -> Result:
    """The same answer, changed when it comes."""
    if isinstance(result, Mapping):
        return result if result is NO_ANSWER else change(dict(result))
    if isinstance(result, Later):
        later = Later(result.cancel if result.on_cancel is not None else None)

        def arrived(body: Response) -> None:
            try:
                later.set(body if body is NO_ANSWER else change(dict(body)))
            except Exception as error:
                later.fail(error)

        result.listen(arrived, later.fail)
        return later
    return _changed(result, change)


async def _changed(result: Awaitable[Response], change: Callable[[Row], Row]) -> Response:
    body = await result
    return body if body is NO_ANSWER else change(dict(body))


async def showing(
    asker: Asker, result: Result, field: str, may_see: Callable[[Row], bool]
) -> Response:
    """The answer with those rows that the client may see; there may be very many."""
    body = await answered(result)
    return {**body, field: [row async for row in asker.each(body.get(field, ())) if may_see(row)]}


async def answered(result: Result) -> Response:
    """The answer of an API that does not wait for others."""
    assert not isinstance(result, Later), "this waits for nobody"
    return result if isinstance(result, Mapping) else await result


def adding(result: Result, field: str, rows: list[Row]) -> Result:
    """The answer with these rows added."""
    if not rows:
        return result
    return then(result, lambda body: {**body, field: [*body.get(field, ()), *rows]})


def only(request: Any, **fields: Any) -> Any:
    """The request with some of its fields replaced."""
    return replace(request, **fields)


def topic_of(item: Any) -> Row:
    """Name and id of a topic as the request gave them."""
    found: Row = {}
    for field in ("name", "topic", "topic_name", "topic_id"):
        if hasattr(item, field):
            found[field] = getattr(item, field)
    return found


def by_topic(
    operation: Operation,
    rows: Callable[[Any, ErrorCode], Row],
    answered: str = "topics",
) -> Rule:
    """The rule of an API with a list of topics: refused ones get their row, the others are served."""

    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        allowed, refused = asker.split(operation, request.topics)
        if not refused:
            return asker.ask(request, inner)
        result = asker.ask(only(request, topics=tuple(allowed)), inner)
        return adding(result, answered, [rows(item, TOPIC_REFUSED) for item in refused])

    return rule


def partition_rows(
    number: str = "partition_index", answered: str = "partitions", **rest: Any
) -> Callable[[Any, ErrorCode], Row]:
    """A refused topic whose answer has a row for each partition that was asked for."""

    def rows(item: Any, code: ErrorCode) -> Row:
        return {
            **topic_of(item),
            answered: [{number: n, "error_code": code, **rest} for n in numbers(item)],
        }

    return rows


def numbers(item: Any) -> list[int]:
    """The partitions of a topic in a request, however it lists them."""
    for field in ("partitions", "partition_indexes", "partition_data"):
        listed = getattr(item, field, None)
        if listed is not None:
            return [_number(each) for each in listed]
    return []


def _number(each: Any) -> int:
    for field in ("partition_index", "partition", "index"):
        if hasattr(each, field):
            return int(getattr(each, field))
    return int(each)


def whole_group(
    operation: Operation, answer: Callable[[Any, ErrorCode], Row] | None = None
) -> Rule:
    """The rule of an API about one group."""

    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        if asker.group(operation, request.group_id):
            return asker.ask(request, inner)
        return answer(request, GROUP_REFUSED) if answer else {"error_code": GROUP_REFUSED}

    return rule
