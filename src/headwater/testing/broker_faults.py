"""Faults of a test's broker, each in one line: `kafka.faults` of `headwater.testing.broker()`.

    kafka.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders")   # the next one
    kafka.faults.disconnect("Produce", topic="orders")                       # the connection is lost first …
    kafka.faults.lose_answer("Produce", topic="orders")                      # … or after it was done
    with kafka.faults.hold("Fetch", topic="orders") as fetch:                # it waits, until the block ends
        fetch.until_struck()
    kafka.faults.disk.fail("write", errno.ENOSPC, topic="orders")            # see `disk_faults`

They stand before the handlers of this one broker, in its own process: nothing outside can reach them, and
the broker that users run does not know of them.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import asyncio
import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Handler, Later, Response, load_apis
from headwater.broker.security.rules.permission import Result, Row, then
from headwater.log.descriptors import share_of_log
from headwater.testing.disk_faults import DiskFaults
from headwater.testing.error_answers import can_fail, error_answer, no_answer, topics_of
from headwater.testing.faults import Fault

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


class Which(TypedDict, total=False):
    """Which requests: about this topic, of this client; `after` of them pass, then `times` are taken."""

    topic: str | None
    client_id: str | None
    after: int
    times: float


Act = Callable[[Fault, Api, Any, Context], Result]


class RequestFault(Fault):
    """A fault of requests to one API; `topic` and `client_id` narrow it down."""

    def __init__(
        self,
        act: Act,
        api: Api,
        topic: str | None = None,
        client_id: str | None = None,
        after: int = 0,
        times: float = 1,
    ) -> None:
        super().__init__(f"{api.name} of {topic or 'any topic'}", after, times)
        self.act, self.key, self.topic, self.client_id = act, api.key, topic, client_id

    def strikes(self, broker: Broker, api: Api, request: Any, context: Context) -> bool:
        if api.key != self.key or self.client_id not in (None, context.client_id):
            return False
        if self.topic is not None and self.topic not in topics_of(broker, api, request):
            return False
        return self.due()


class BrokerFaults:
    """What is to go wrong in one broker. May be planned from any thread, before its start too."""

    def __init__(self, broker: Broker) -> None:
        self.disk = DiskFaults(share_of_log())
        """The disk's faults."""
        self._broker = broker
        self._named = {api.name: api for api in load_apis().values()}
        self._planned: list[RequestFault] = []

    # ---- what a test says ------------------------------------------------------------------------

    def fail(self, api: str, error: str | ErrorCode, **which: Unpack[Which]) -> Fault:
        """Let the next request to this API (`"Produce"`) be answered with Kafka's error; nothing is done.

        With `topic`, one that is about it; where it is about others as well, those are served. `after`
        requests succeed first, then `times` fail (`math.inf`: until the fault's `end`).
        """
        found, code = self._api(api), _code(error)
        if not can_fail(found):
            raise ValueError(f"an answer of {api} has no place for an error; try disconnect")

        def act(fault: Fault, api: Api, request: Any, context: Context) -> Result:
            inner = api.handle
            return error_answer(
                api, inner, self._broker, request, context, code, which.get("topic")
            )

        return self._plan(RequestFault(act, found, **which))

    def hold(self, api: str, **which: Unpack[Which]) -> Fault:
        """Let the next request wait until the fault's `release`, and all that its client sends behind it.

        It is done then, as one that was long on its way, whether its client still waits or not.
        """
        return self._plan(RequestFault(self._hold, self._api(api), **which))

    def disconnect(self, api: str, **which: Unpack[Which]) -> Fault:
        """Close the connection instead of doing the next request."""

        def act(fault: Fault, api: Api, request: Any, context: Context) -> Result:
            _close(context)
            return no_answer()

        return self._plan(RequestFault(act, self._api(api), **which))

    def lose_answer(self, api: str, **which: Unpack[Which]) -> Fault:
        """Do the next request, and close the connection instead of answering: its client cannot know."""

        def act(fault: Fault, api: Api, request: Any, context: Context) -> Result:
            def lose(answer: Row) -> Row:
                _close(context)
                return answer

            return then(api.handle(self._broker, request, context), lose)

        return self._plan(RequestFault(act, self._api(api), **which))

    def heal(self) -> None:
        """Nothing planned goes wrong any more, and whoever waits goes on."""
        for fault in self._planned:
            fault.end()
        self._planned.clear()
        self.disk.heal()

    def _plan(self, fault: RequestFault) -> Fault:
        self._planned.append(fault)
        return fault

    def _api(self, name: str) -> Api:
        if name not in self._named:
            near = difflib.get_close_matches(name, self._named, 1)
            raise ValueError(f"no API is called {name!r}" + "".join(f"; {x}?" for x in near))
        return self._named[name]

    # ---- where it happens ------------------------------------------------------------------------

    def before(self, apis: Mapping[int, Api]) -> dict[int, Api]:
        """The same APIs, each with the faults that are planned before its handler."""
        return {key: replace(api, handle=self._before(api)) for key, api in apis.items()}

    def _before(self, api: Api) -> Handler:
        inner = api.handle

        def handle(broker: Broker, request: Any, context: Context) -> Result:
            if self._planned and request is not None:
                for fault in tuple(self._planned):
                    if fault.strikes(broker, api, request, context):
                        return fault.act(fault, api, request, context)
            return inner(broker, request, context)

        return handle

    def _hold(self, fault: Fault, api: Api, request: Any, context: Context) -> Later:
        later, loop = Later(), asyncio.get_running_loop()
        context.connection.hold()

        def go_on() -> None:
            try:
                _forward(self._broker, api, api.handle(self._broker, request, context), later)
            except Exception as error:  # as the connection takes a handler's error
                later.fail(error)
            finally:
                context.connection.proceed()

        def release() -> None:
            loop.call_soon_threadsafe(go_on)

        fault.hold(release)
        return later


def _forward(broker: Broker, api: Api, result: Result, later: Later) -> None:
    """Give `later` what the handler gives, now or then."""
    if isinstance(result, Mapping):
        later.set(result)
    elif isinstance(result, Later):
        result.listen(later.set, later.fail)
    else:

        def done(task: asyncio.Task[Response]) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                later.fail(error)
            elif not task.cancelled():
                later.set(task.result())

        broker.supervisor.spawn(api.name, result, done)


def _close(context: Context) -> None:
    context.connection.fail("the test wants it")


def _code(error: str | ErrorCode) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    names = ErrorCode.__members__
    if error.lower() not in names:
        near = difflib.get_close_matches(error.lower(), names, 1)
        raise ValueError(
            f"Kafka has no error called {error!r}" + "".join(f"; {x.upper()}?" for x in near)
        )
    return ErrorCode[error.lower()]
