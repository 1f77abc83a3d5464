"""What administrators do through the console: refused to others before anything is asked, and done."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from headwater.browse.audit import newest
from headwater.client import acls, groups, quotas, setting_details, share_groups, topics, users
from headwater.client.acls import Acl
from headwater.client.errors import BadRequest, NotThere, RequestRefused
from headwater.client.groups import ResetPlan
from headwater.client.log import Log
from headwater.client.setting_details import Change, Detail, Kind, Place
from headwater.console import administration
from headwater.console.actions import NotAllowed
from headwater.console.administration import access, parts, tour
from headwater.console.administration import groups as group_administration
from headwater.console.administration import topics as topic_administration
from headwater.console.administration.topics import NewTopic, settings_in
from headwater.console.context import Context, Visit
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.sentences import sentence_of
from headwater.console.sessions import Visitor
from headwater.console.watching import Watch
from headwater.project.roles import Role
from headwater.testing.apache_kafka import MissingServer
from tests.compat.missing import skip_or_fail
from tests.compat.waiting import until
from tests.security import servers
from tests.security.servers import Certificates, Secured

pytestmark = pytest.mark.timeout(900)
MODULES: tuple[ModuleType, ...] = (topic_administration, access, group_administration, parts, tour)
READ = Acl("User:ann", "allow", "read", "topic", "orders")
ONE = [Change("retention.ms", None, "1000")]
CALLS: dict[str, Callable[[Visit], object]] = {
    "create": lambda v: topic_administration.create(v, NewTopic("x"), dry_run=False),
    "create, tried": lambda v: topic_administration.create(v, NewTopic("x"), dry_run=True),
    "configure": lambda v: topic_administration.configure(v, "x", ONE, dry_run=False),
    "configure_broker": lambda v: topic_administration.configure_broker(v, "1", ONE, dry_run=False),
    "grow": lambda v: topic_administration.grow(v, "x", 3, dry_run=False),
    "would_lose": lambda v: topic_administration.would_lose(v, "x"),
    "delete": lambda v: topic_administration.delete(v, "x", "x"),
    "delete, of a group": lambda v: group_administration.delete(v, "x", "x"),
    "would_forget": lambda v: group_administration.would_forget(v, "x", ["y"]),
    "delete_offsets": lambda v: group_administration.delete_offsets(v, "x", ["y"]),
    "reset": lambda v: group_administration.reset(v, ResetPlan("x")),
    "put_user": lambda v: access.put_user(v, "x", "y", access.MECHANISMS),
    "remove_user": lambda v: access.remove_user(v, "x", "x"),
    "add_permission": lambda v: access.add_permission(v, READ),
    "remove_permission": lambda v: access.remove_permission(v, READ),
    "change": lambda v: parts.change(v, "capture shop", "pause"),
    "write_order": lambda v: tour.write_order(v),
    "kill_broker": lambda v: tour.kill_broker(v),
    "set_quota": lambda v: access.set_quota(v, {"user": "x"}, {}, dry_run=False),
}


@contextlib.contextmanager
def consoles(bootstrap: str, client: dict[str, str] | None = None) -> Iterator[Context]:
    log = Log(bootstrap, client)
    watch = Watch(log, client or {}, None)
    context = Context(
        bootstrap, client or {}, None, False, log, History(bootstrap, {}), watch, Jobs()
    )
    try:
        yield context
    finally:
        context.delegates.close()
        log.close()


def visits(context: Context, role: Role = Role.ADMINISTRATOR, name: str = "User:ada") -> Visit:
    return Visit(context, visitor=Visitor(name, role))


# ---- who may ------------------------------------------------------------------------------------


def functions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(module))
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and node.args.args
        and node.args.args[0].arg == "visit"
    }


def test_every_module_of_administration_is_walked() -> None:
    folder = Path(administration.__file__).parent
    found = {each.stem for each in folder.glob("*.py")} - {"__init__", "delegates"}
    assert found == {module.__name__.rpartition(".")[2] for module in MODULES}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_function_first_asks_whether_the_visitor_may(module: ModuleType) -> None:
    assert functions(module)
    for name, function in functions(module).items():
        first = function.body[1 if ast.get_docstring(function) else 0]
        assert ast.unparse(first).startswith("visit.must(Action."), f"{module.__name__}.{name}"
        assert name in CALLS, f"{name} is not called by the tests of roles"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_whoever_is_less_is_refused_before_the_broker_is_asked(
    call: Callable[[Visit], object],
) -> None:
    with consoles("127.0.0.1:1") as nowhere:
        with pytest.raises(NotAllowed, match="takes the role of"):
            call(visits(nowhere, Role.READER))
        ended = Visit(nowhere, visitor=Visitor("x", Role.ADMINISTRATOR), stands=lambda: False)
        with pytest.raises(NotAllowed, match="not signed in any more"):
            call(ended)


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__mine", "headwater.keys", "_headwater_sink"]
)
def test_the_logs_own_topics_are_refused_to_administrators_too(topic: str) -> None:
    with consoles("127.0.0.1:1") as nowhere:
        visit = visits(nowhere)
        for call in (
            lambda: topic_administration.create(visit, NewTopic(topic), dry_run=False),
            lambda: topic_administration.configure(visit, topic, ONE, dry_run=False),
            lambda: topic_administration.grow(visit, topic, 3, dry_run=False),
            lambda: topic_administration.delete(visit, topic, topic),
            lambda: topic_administration.would_lose(visit, topic),
        ):
            with pytest.raises(RequestRefused, match="is the log's own"):
                call()


# ---- what is decided without a broker -----------------------------------------------------------


def test_settings_are_lines_of_name_and_value() -> None:
    assert settings_in("a=1\n\n b = x=y \n") == {"a": "1", "b": "x=y"}
    with pytest.raises(BadRequest, match="'a' is no setting"):
        settings_in("a")


def test_changes_leave_out_what_is_so_already() -> None:
    known = [
        Detail("a", "1", "this topic", True, "0"),
        Detail("b", "2", "default", False, "2"),
        Detail("c", "3", "the broker's file", False, "3", is_read_only=True),
        Detail("d", None, "this topic", True, None, is_secret=True),
    ]
    assert setting_details.changes(known, {"a": "1"}, ["b"]) == []
    # The same value as the default, but its own: it stays when the default moves.
    assert setting_details.changes(known, {"b": "2"}) == [Change("b", "2", "2", "2")]
    assert setting_details.changes(known, {"a": "5"}, ["a"])[0].result == "5"
    assert setting_details.changes(known, {}, ["a"])[0].result == "0"
    assert setting_details.changes(known, {"d": "secret"}) == [Change("d", None, "secret")]
    with pytest.raises(BadRequest, match="is read when the broker starts"):
        setting_details.changes(known, {"c": "4"})


# ---- beside both brokers ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["headwater", "kafka"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
    with contextlib.ExitStack() as stack:
        if request.param == "headwater":
            home = tmp_path_factory.mktemp("broker")
            more = {"audit.delegates": "User:root"}
            yield stack.enter_context(servers.headwater(certificates, home, **more))
            return
        try:
            yield stack.enter_context(servers.kafka(certificates))
        except MissingServer as missing:
            skip_or_fail(f"Apache Kafka cannot run here: {missing}")


@pytest.fixture(scope="module")
def context(server: Secured) -> Iterator[Context]:
    with consoles(server.bootstrap) as made:
        yield made


def test_a_topic_is_tried_made_configured_grown_and_deleted(context: Context) -> None:
    visit = visits(context)
    wanted = NewTopic("admin.orders", 2, settings={"retention.ms": "1000"})
    topic_administration.create(visit, wanted, dry_run=True)
    assert "admin.orders" not in visit.log.topics()
    topic_administration.create(visit, wanted, dry_run=False)
    until(lambda: visit.log.topics().get("admin.orders") == 2, "the topic")
    place = Place(Kind.TOPIC, "admin.orders")
    by_name = {each.name: each for each in setting_details.described(context.log, place)}
    own = by_name["retention.ms"]
    assert (own.value, own.fallback, own.is_own) == ("1000", "604800000", True)
    assert own.meaning and own.form == "whole number"
    change = setting_details.changes(by_name.values(), {"max.message.bytes": "2000"}, [own.name])
    topic_administration.configure(visit, "admin.orders", change, dry_run=True)
    assert setting_details.described(context.log, place) == list(by_name.values())
    topic_administration.configure(visit, "admin.orders", change, dry_run=False)

    def values() -> tuple[str | None, str | None]:
        now = {each.name: each.value for each in setting_details.described(context.log, place)}
        return now["retention.ms"], now["max.message.bytes"]

    until(lambda: values() == ("604800000", "2000"), "the changed settings")
    topic_administration.grow(visit, "admin.orders", 3, dry_run=True)
    assert visit.log.topics()["admin.orders"] == 2
    topic_administration.grow(visit, "admin.orders", 3, dry_run=False)
    until(lambda: visit.log.topics()["admin.orders"] == 3, "three partitions")
    assert topic_administration.would_lose(visit, "admin.orders").partitions == 3
    with pytest.raises(BadRequest, match="type the name"):
        topic_administration.delete(visit, "admin.orders", "orders")
    topic_administration.delete(visit, "admin.orders", "admin.orders")
    until(lambda: "admin.orders" not in visit.log.topics(), "the topic to go")


def test_an_error_of_the_broker_is_a_sentence(context: Context) -> None:
    visit = visits(context)
    bad = NewTopic("admin.bad", 1, settings={"retention.ms": "soon"})
    with pytest.raises(RequestRefused) as caught:
        topic_administration.create(visit, bad, dry_run=True)
    sentence, _ = sentence_of(caught.value)
    assert sentence.startswith("Checking topic admin.bad: ") and "INVALID_CONFIG" in sentence
    with pytest.raises(RequestRefused, match=r"settings of topic admin\.bad"):
        topic_administration.configure(visit, "admin.bad", ONE, dry_run=True)
    with pytest.raises(NotThere, match="no topic"):
        topic_administration.would_lose(visit, "admin.bad")


def test_a_brokers_settings_are_told_and_changed_where_they_may(context: Context) -> None:
    visit = visits(context)
    (broker,) = setting_details.brokers(context.log)
    place = Place(Kind.BROKER, broker)
    by_name = {each.name: each for each in setting_details.described(context.log, place)}
    assert by_name["node.id"].is_read_only and not by_name["log.retention.ms"].is_read_only
    wanted = setting_details.changes(by_name.values(), {"message.max.bytes": "2000000"})
    topic_administration.configure_broker(visit, broker, wanted, dry_run=True)
    topic_administration.configure_broker(visit, broker, wanted, dry_run=False)

    def now() -> Detail:
        found = setting_details.described(context.log, place)
        return next(each for each in found if each.name == "message.max.bytes")

    until(lambda: now().value == "2000000" and now().is_own, "the broker's setting")
    back = setting_details.changes([now()], {}, ["message.max.bytes"])
    topic_administration.configure_broker(visit, broker, back, dry_run=False)
    until(lambda: not now().is_own, "the setting to be as before")
    everywhere = [Change("message.max.bytes", None, "3000000")]
    topic_administration.configure_broker(visit, "", everywhere, dry_run=True)
    wrong = [Change("message.max.bytes", None, "many")]
    with pytest.raises(RequestRefused):
        topic_administration.configure_broker(visit, broker, wrong, dry_run=True)


def test_users_come_change_their_password_and_go(context: Context) -> None:
    visit = visits(context)

    def mechanisms() -> list[str] | None:
        return users.listed(context.log.admin).get("carol")

    access.put_user(visit, "carol", "one", ["SCRAM-SHA-512"])
    until(lambda: mechanisms() == ["SCRAM-SHA-512"], "the new user")
    access.put_user(visit, "carol", "two", access.MECHANISMS)
    until(lambda: mechanisms() == ["SCRAM-SHA-256", "SCRAM-SHA-512"], "the second mechanism")
    with pytest.raises(BadRequest, match="opens nothing"):
        access.put_user(visit, "carol", "", access.MECHANISMS)
    with pytest.raises(BadRequest, match="type the name"):
        access.remove_user(visit, "carol", "caro")
    access.remove_user(visit, "carol", "carol")
    until(lambda: not mechanisms(), "the user to go")
    with pytest.raises(NotThere, match="no user 'carol'"):
        access.remove_user(visit, "carol", "carol")


def test_a_permission_is_added_and_that_one_is_removed(context: Context) -> None:
    visit = visits(context)
    prefixed = READ._replace(is_prefix=True)
    cluster = Acl("User:ann", "deny", "alter", "cluster", "")

    def found() -> set[Acl]:
        return set(acls.listed(context.log.admin, "User:ann"))

    for each in (READ, prefixed, cluster):
        access.add_permission(visit, each)
    all_three = {READ, prefixed, cluster._replace(name=acls.CLUSTER_NAME)}
    until(lambda: found() == all_three, "the permissions")
    assert acls.sentence(prefixed) == "User:ann may read topics that begin with orders"
    access.remove_permission(visit, READ)
    until(lambda: found() == all_three - {READ}, "one to go and no other")
    with pytest.raises(NotThere, match="removed it already"):
        access.remove_permission(visit, READ)
    for each in found():
        access.remove_permission(visit, each)
    with pytest.raises(BadRequest, match="is no principal"):
        access.add_permission(visit, READ._replace(principal="ann"))


def test_a_quota_is_tried_set_and_taken_away(context: Context) -> None:
    visit = visits(context)

    def limits() -> dict[str, float]:
        found = [each for each in quotas.listed(context.log) if each.owner == {"user": "dora"}]
        return found[0].limits if found else {}

    owner, wanted = {"user": "dora"}, {"producer_byte_rate": 1000.0}
    access.set_quota(visit, owner, wanted, dry_run=True)
    assert limits() == {}
    access.set_quota(visit, owner, wanted, dry_run=False)
    until(lambda: limits() == wanted, "the quota")
    with pytest.raises(RequestRefused, match="checking the quota of user dora"):
        access.set_quota(visit, owner, {"no_such_rate": 1.0}, dry_run=True)
    access.set_quota(visit, owner, {"producer_byte_rate": None}, dry_run=False)
    until(lambda: limits() == {}, "the quota to go")


def have_leaders(context: Context, places: dict[tuple[str, int], int]) -> bool:
    """Apache Kafka answers for a new topic before somebody leads it."""
    with contextlib.suppress(RequestRefused):
        return len(context.log.ends(places)) == len(places)
    return False


def test_a_group_forgets_a_topic_and_is_deleted(context: Context) -> None:
    visit = visits(context)
    for name in ("group.a", "group.b"):
        topics.create(context.log.admin, name, 1)
    places = {("group.a", 0): 0, ("group.b", 0): 0}
    until(lambda: len(context.log.ends(places)) == 2, "the topics")
    until(lambda: _commits(context.log, "readers", places), "a coordinator of the group")
    lost = group_administration.would_forget(visit, "readers", ["group.a"])
    assert [(each.topic, each.committed) for each in lost] == [("group.a", 0)]
    group_administration.delete_offsets(visit, "readers", ["group.a"])
    until(lambda: groups.named(context.log, "readers").topics == ["group.b"], "one to go")
    with pytest.raises(NotThere, match="has committed nothing for"):
        group_administration.delete_offsets(visit, "readers", ["group.a"])
    with pytest.raises(BadRequest, match="type the name"):
        group_administration.delete(visit, "readers", "reader")
    group_administration.delete(visit, "readers", "readers")
    with pytest.raises(NotThere, match="no group 'readers'"):
        groups.named(context.log, "readers")


def test_a_share_group_forgets_a_topic_and_is_deleted(context: Context) -> None:
    visit = visits(context)
    topics.create(context.log.admin, "queue", 1)
    until(lambda: "queue" in context.log.topics(), "the topic")
    _join_and_leave(context.log.bootstrap, "workers", "queue")
    until(lambda: "workers" in share_groups.names(context.log), "the share group")
    until(lambda: not groups.named(context.log, "workers").members, "its members to leave")
    share_groups.move(context.log, "workers", {("queue", 0): 0})
    until(lambda: groups.named(context.log, "workers").partitions != (), "its start")
    group_administration.delete_offsets(visit, "workers", ["queue"])
    until(lambda: not groups.named(context.log, "workers").partitions, "its start to go")
    group_administration.delete(visit, "workers", "workers")
    until(lambda: "workers" not in share_groups.names(context.log), "the group to go")


def _commits(log: Log, group: str, places: dict[tuple[str, int], int]) -> bool:
    try:
        groups.commit(log, group, places)
    except RequestRefused:
        return False  # Kafka has no coordinator for a moment
    return True


def _join_and_leave(bootstrap: str, group: str, topic: str) -> None:
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    consumer.poll(1.0)
    consumer.close()


@pytest.mark.parametrize("server", ["headwater"], indirect=True)
def test_the_audit_has_the_person_behind_the_console(server: Secured) -> None:
    with Log(server.bootstrap) as log:
        for name in ("root", "other"):
            users.put(log.admin, name, "pw", ["SCRAM-SHA-512"], 4096)
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "root",
        "sasl.password": "pw",
    }
    with consoles(server.listeners["SASL_PLAINTEXT"], settings) as trusted:
        topic_administration.create(visits(trusted), NewTopic("audit.one", 1), dry_run=False)
        topic_administration.create(
            visits(trusted, name="nobody"), NewTopic("audit.two", 1), dry_run=False
        )
    with Log(server.bootstrap, {"client.id": "a forger; for=User:eve"}) as log:
        topics.create(log.admin, "audit.three", 1)

        def told() -> list[tuple[str, str, str, str]]:
            found = [each for each in newest(log, 50) if each.name.startswith("audit.")]
            return [(e.name, e.principal, e.on_behalf_of, e.client_id) for e in reversed(found)]

        until(lambda: len(told()) == 3, "three changes in the audit")
        assert told() == [
            ("audit.one", "User:root", "User:ada", "headwater-console; for=User:ada"),
            ("audit.two", "User:root", "", "headwater-console"),
            # Whoever is not trusted says what he likes in his client id, and nowhere else.
            ("audit.three", "User:ANONYMOUS", "", "a forger; for=User:eve"),
        ]
        (first, *_) = [each for each in newest(log, 50) if each.name == "audit.one"]
        assert first.who == "User:ada, by User:root"
