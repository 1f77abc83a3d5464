"""What browsers send over their websockets, before NiceGUI hears it. Put in place by `app`.

NiceGUI takes an event by the id of the page that it names, whoever sends it, and writes what a browser tells
of its own errors into the log. Here an event counts only on the websocket that its page was shown to, in the
form in which our pages send it; and what browsers tell of themselves goes nowhere: it would be lines of a
stranger among our own.
"""

from __future__ import annotations

from collections.abc import Callable

from nicegui import Client, core
from starlette.types import Scope

from headwater.console.guard import SESSION, VISITOR

PAGES_MAX = {SESSION: 64, VISITOR: 256}
"""Of one session, and of one name in all of its sessions."""
UNOPENED_MAX = 16
"""Pages of a session that were asked for, and whose websocket has not come."""
Said = dict[str, object]


def guard() -> None:
    """Once, before the server starts."""
    core.sio.on("event", _on_its_own_page(_event))
    core.sio.on("javascript_response", _on_its_own_page(_response))
    core.sio.on("ack", _on_its_own_page(_ack))
    core.sio.on("log", lambda _sid, *_said: None)


def _on_its_own_page(take: Callable[[Client, Said], None]) -> Callable[..., None]:
    def heard(sid: str, *given: object) -> None:
        said = given[0] if len(given) == 1 else None
        named = said.get("client_id") if isinstance(said, dict) else None
        if isinstance(said, dict) and isinstance(named, str) and named in core.sio.rooms(sid):
            client = Client.instances.get(named)
            if client is not None:
                take(client, said)

    return heard


def _event(client: Client, said: Said) -> None:
    args = said.get("args", [])
    is_one = isinstance(said.get("id"), int) and isinstance(said.get("listener_id"), str)
    if not is_one or not isinstance(args, list) or not client.has_socket_connection:
        return
    try:
        client.handle_event(said)
    except (TypeError, ValueError):  # its arguments are no JSON
        return


def _response(client: Client, said: Said) -> None:
    if isinstance(said.get("request_id"), str):
        client.handle_javascript_response(said)


def _ack(client: Client, said: Said) -> None:
    number = said.get("next_message_id")
    if isinstance(number, int):
        client.outbox.prune_history(number)


def forget_pages(session: str) -> None:
    """A session has ended: nobody takes its pages up again, under whichever cookie."""
    for client in _pages_of(SESSION, session):
        _forget(client)


def bound_pages(scope: Scope) -> None:
    """Another page is made: the oldest go, where somebody asks for more than people look at."""
    if scope.get(SESSION) is None:
        return  # of a console that asks nobody: it listens on this machine only
    unopened = [p for p in _pages_of(SESSION, scope[SESSION]) if not p.has_socket_connection]
    for client in unopened[: max(0, len(unopened) - UNOPENED_MAX)]:
        _forget(client)
    for what, most in PAGES_MAX.items():
        known = _pages_of(what, scope[what])
        for client in known[: max(0, len(known) - most)]:
            _forget(client)


def _pages_of(what: str, whose: object) -> list[Client]:
    """The oldest first."""
    asked = ((client, client._request) for client in list(Client.instances.values()))
    # `client.request` raises where a page was not asked for.
    return [client for client, by in asked if by is not None and by.scope.get(what) == whose]


def _forget(client: Client) -> None:
    for document in list(client._delete_tasks):
        client._cancel_delete_task(document)  # it would delete the page a second time
    client.delete()
