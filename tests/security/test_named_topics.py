"""Topics that an ACL for every topic does not reach: one that names them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.broker import internal_topics
from headwater.broker.security.acls import (
    Acl,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from tests.broker.serving import serving

ANN = "User:ann"
HOST = "127.0.0.1"
NAMED = sorted(name for name in internal_topics.TABLE if internal_topics.needs_a_name(name))
ASKED = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)


def test_there_are_some():
    assert internal_topics.SCHEMAS in NAMED and len(NAMED) >= 4


@pytest.mark.parametrize("name", NAMED)
def test_an_acl_that_names_it_reaches_it_and_one_for_every_topic_does_not(
    tmp_path: Path, name: str
):
    with serving(tmp_path / "data", {"authorizer.class.name": "acl"}) as found:
        authorizer = found.broker.authorizer
        assert authorizer is not None

        def allow(resource: str, pattern: Pattern) -> None:
            acl = (ResourceType.TOPIC, resource, pattern, ANN, "*", Operation.ALL, Permission.ALLOW)
            found.run(authorizer.add(Acl(*acl)))

        def allowed() -> set[bool]:
            return {authorizer.allows(ANN, HOST, each, ResourceType.TOPIC, name) for each in ASKED}

        allow("*", Pattern.LITERAL)
        allow("_", Pattern.PREFIXED)
        assert allowed() == {False}
        allow(name, Pattern.LITERAL)
        assert allowed() == {True}
