"""What somebody may do by the file, whether or not he asks now; pure.

Called for what lasts when its maker has gone: a webhook subscription goes on for as long as he could make it
anew. Of a principal of an issuer only its tokens say which groups it is in, so it counts as in all of them.
"""

from __future__ import annotations

from headwater.edges.config import Edges
from headwater.edges.tokens import PRINCIPAL, Need, Section, Token, scopes_of


class Rights:
    def __init__(self, edges: Edges) -> None:
        issuer = edges.oidc or {}
        self._is_open = not edges.tokens and edges.oidc is None
        self._tokens = _granted(edges.tokens)
        self._groups = _granted(issuer.get("groups", {})).values()
        self._principals = _granted(issuer.get("principals", {}))

    def may(self, who: str, need: Need) -> bool:
        """`who`: as `caller.who` names him."""
        if self._is_open:
            return True
        if not who.startswith(PRINCIPAL):
            return who in self._tokens and self._tokens[who].may(need)
        own = self._principals.get(who.removeprefix(PRINCIPAL))
        return any(each.may(need) for each in (*self._groups, *([] if own is None else [own])))


def _granted(sections: Section) -> dict[str, Token]:
    return {name: Token(name, *scopes_of(each)) for name, each in sections.items()}
