"""Handlers of /config and /mode, of all subjects, of a context or of one subject; and what this process
is.
"""

from __future__ import annotations

from headwater import __version__
from headwater.edges.registry.call import ADMIN, READ, Call
from headwater.schemas import changes, errors


def config(call: Call) -> dict[str, object]:
    scope = call.scope(READ)
    if scope is not None and call.state.config(scope) is None and not call.flag("defaultToGlobal"):
        raise errors.no_compatibility_of(scope)
    return call.state.config_in_force(scope)


def config_set(call: Call) -> dict[str, object]:
    scope = call.scope(ADMIN)
    found = call.store.change(lambda state: changes.set_config(state, scope, call.body))
    if "compatibilityLevel" in found:
        found["compatibility"] = found.pop("compatibilityLevel")
    return found


def config_deleted(call: Call) -> dict[str, object]:
    scope = call.scope(ADMIN)
    return call.store.change(lambda state: changes.delete_config(state, scope))


def mode(call: Call) -> dict[str, object]:
    scope = call.scope(READ)
    if scope is not None and call.state.mode(scope) is None and not call.flag("defaultToGlobal"):
        raise errors.no_mode_of(scope)
    return {"mode": call.state.mode_in_force(scope)}


def mode_set(call: Call) -> dict[str, object]:
    scope, wanted, force = call.scope(ADMIN), call.body.get("mode"), call.flag("force")
    return {
        "mode": call.store.change(lambda state: changes.set_mode(state, scope, wanted, force=force))
    }


def mode_deleted(call: Call) -> dict[str, object]:
    scope = call.scope(ADMIN)
    if scope is None:
        raise errors.RegistryError(405, "the mode of all subjects can be set, and not deleted")
    return {"mode": call.store.change(lambda state: changes.delete_mode(state, scope))}


def nothing(call: Call) -> dict[str, object]:
    return {}


def well(call: Call) -> dict[str, object]:
    return {"ok": True}


def cluster(call: Call) -> dict[str, object]:
    return {"scope": {"path": [], "clusters": {}}}


def about(call: Call) -> dict[str, object]:
    return {"version": __version__, "commitId": "headwater"}
