"""Whole passes over clusters with `spec.auth`: reading Secrets, changing etcd, and reporting."""

from __future__ import annotations

import asyncio
import base64
import logging

import pytest
from aetcd import rpc
from reconcile_bench import KEY, Bench

from etcd_operator.etcd import accounts, auth_look
from etcd_operator.etcd.accounts import PASSWORD_SECONDS, GrpcAccounts
from etcd_operator.etcd.api import Endpoint, NoAnswer
from etcd_operator.etcd.client import GrpcEtcd, _meaning
from etcd_operator.kube.api import ETCD_CLUSTERS, SECRETS, Rejected, Unavailable
from etcd_operator.objects.reading import secret as read_secret
from etcd_stateful.api.auth import Permission
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.api.tls import Level
from etcd_stateful.membership.upkeep.accounts import (
    AddUser,
    DeleteUser,
    Enable,
    GrantPermission,
    RevokePermission,
    SetPassword,
)

MANAGED = {"peer": "Managed", "client": "Managed"}
AUTH = {
    "rootSecret": {"name": "root"},
    "roles": [{"name": "web", "permissions": [{"access": "Read", "prefix": "/web/"}]}],
    "users": [{"name": "web", "secret": {"name": "web", "key": "pw"}, "roles": ["web"]}],
}
SECRET_WORDS = ("root-secret-1", "web-secret-1", "web-secret-2")


def put_password(bench, name, password, key="password"):
    data = {key: base64.b64encode(password.encode()).decode()}
    bench.kube.put(SECRETS, {"metadata": {"name": name, "namespace": "default"}, "data": data})


@pytest.fixture
def bench():
    found = Bench()
    put_password(found, "root", "root-secret-1")
    put_password(found, "web", "web-secret-1", "pw")
    return found


@pytest.fixture
async def on(bench):
    bench.declare(TLS=MANAGED, auth=AUTH)
    await bench.run()
    assert bench.accounts.enabled
    bench.accounts.calls.clear()
    bench.events.posted.clear()
    return bench


def minutes(bench, count=1):
    bench.clock.now += 60 * count


async def test_authentication_is_turned_on_and_reported(bench):
    bench.declare(TLS=MANAGED, auth=AUTH)
    await bench.run()

    assert bench.accounts.passwords == {"root": "root-secret-1", "web": "web-secret-1"}
    assert bench.status["auth"] == {"enabled": True, "users": ["root", "web"], "roles": ["web"]}
    assert "AuthenticationOn" in bench.events.reasons()
    assert bench.condition("Progressing")["reason"] == "AsDeclared"


async def test_a_settled_cluster_needs_one_more_request_per_round(on):
    minutes(on)
    await on.run()
    on.accounts.calls.clear()
    on.etcd.calls.clear()
    minutes(on)
    await on.once()

    assert on.accounts.calls == ["status"]
    assert len(on.etcd.calls) == 4


async def test_a_password_follows_its_secret(on):
    put_password(on, "web", "web-secret-2", "pw")
    minutes(on)
    await on.run()

    assert on.accounts.passwords["web"] == "web-secret-2"
    assert "PasswordChanged" in on.events.reasons()


async def test_each_change_of_the_membership_tried_all_passwords_again(on):
    """etcd hashes each of them. With 64 users, the second look at a step took six seconds longer,
    and what members had said at its beginning was as old."""
    on.declare(TLS=MANAGED, auth=AUTH, size=5)
    await on.run()

    assert len(on.etcd.listed) == 5
    assert not [call for call in on.accounts.calls if call.startswith("try")]


@pytest.mark.parametrize("silent", ["members", "accounts"])
async def test_each_election_made_all_passwords_be_tried_again(on, silent):
    for quiet in (True, False):
        on.etcd.silent = set(on.etcd.members) if quiet and silent == "members" else set()
        on.accounts.silent = quiet and silent == "accounts"
        minutes(on)
        await on.once()

    assert "status" in on.accounts.calls
    assert not [call for call in on.accounts.calls if call.startswith("try")]


@pytest.mark.parametrize(("other", "again"), [(0, False), (1, True)])
async def test_a_look_at_another_etcd_cluster_does_not_count(on, other, again):
    """After a restore in place, the users may be of another cluster with as many changes of
    them."""
    observer = on.reconciler._observer
    cluster = parse_cluster(on.body)
    at = Endpoint("10.0.0.1", on.etcd.cluster_id + other)
    base, passwords = observer.from_store(on.body, cluster), observer._passwords.of(cluster)
    last = observer._sweeps[KEY].known

    await auth_look.look(on.accounts, at, base, passwords, last)

    assert ("try web" in on.accounts.calls) == again


async def test_no_password_followed_its_secret_while_that_of_a_new_user_was_missing(on):
    new = {"name": "new", "secret": {"name": "new"}, "roles": ["web"]}
    on.declare(TLS=MANAGED, auth={**AUTH, "users": [*AUTH["users"], new]})
    put_password(on, "web", "web-secret-2", "pw")
    for _ in range(20):
        await on.once()
        on.clock.now += 10

    assert on.accounts.passwords == {"root": "root-secret-1", "web": "web-secret-2"}
    assert on.condition("Blocked")["reason"] == "AuthSecretUnusable"


@pytest.mark.parametrize(
    "error", [Rejected("image is not allowed", status=403), Unavailable("no answer")]
)
async def test_a_user_kept_access_as_long_as_a_write_was_refused_that_all_else_waits_for(on, error):
    """A policy did not let the StatefulSet have the image of the new version."""
    await on.run()
    on.kube.failures["apply StatefulSet"] = [error] * 40
    on.declare(TLS=MANAGED, version="3.7.4", auth={**AUTH, "users": []})
    for _ in range(20):
        try:
            on.clock.now += await on.once() or 1.0
        except Unavailable:
            on.clock.now += 1.0
    assert len(on.kube.failures["apply StatefulSet"]) < 40

    assert "web" not in on.accounts.passwords
    told = on.condition("Progressing")
    assert told["reason"] == "StepFailed"
    assert str(error) in told["message"]


async def test_at_rest_no_secret_is_read_until_it_changes(on):
    on.marks = {}
    await on.run()
    on.kube.calls.clear()
    await on.rest(600)
    assert not on.kube.calls

    on.clock.now += 1
    put_password(on, "web", "web-secret-2", "pw")
    on.marks["web"] = 1
    for _ in range(3):
        await on.once()
    assert on.accounts.passwords["web"] == "web-secret-2"


async def test_a_leader_that_was_stopped_for_a_while_sets_no_old_password(on):
    """It still has the old Secret in memory, while another operator has set the new password."""
    on.marks = {}
    minutes(on)
    await on.run()
    put_password(on, "web", "web-secret-2", "pw")
    on.accounts.do(SetPassword("web"), "web-secret-2")
    minutes(on)
    await on.once()
    assert on.accounts.passwords["web"] == "web-secret-2"

    await on.run()
    assert on.accounts.passwords["web"] == "web-secret-2"
    assert on.condition("Progressing")["reason"] == "AsDeclared"


async def test_a_leader_that_was_stopped_for_a_while_grants_nothing_by_an_old_spec(on):
    on.kube.watching = False
    body = on.body
    body["spec"]["auth"]["roles"][0]["permissions"] = [{"access": "Read", "key": "/motd"}]
    body["metadata"]["generation"] += 1
    on.kube.put(ETCD_CLUSTERS, body)
    [old] = on.accounts.permissions["web"]
    new = Permission("Read", b"/motd")
    on.accounts.do(RevokePermission("web", old))
    on.accounts.do(GrantPermission("web", new))
    minutes(on)
    await on.once()
    assert on.accounts.permissions["web"] == {new}

    await on.run()
    assert on.accounts.permissions["web"] == {new}


async def test_authentication_turned_off_by_hand_is_on_again_within_a_round(on):
    on.accounts.enabled = False
    minutes(on)
    await on.run()

    assert on.accounts.enabled
    [told] = [one for one in on.events.posted if one[1] == "AuthenticationOn"]
    assert "turned off" in told[2]


async def test_an_unanswered_request_for_users_is_reported_as_waiting(on):
    on.accounts.silent = True
    minutes(on)
    on.clock.now += await on.once()
    await on.once()
    assert on.condition("Progressing")["message"] == "waiting for etcd to list its users and roles"

    on.accounts.silent = False
    on.clock.now += 1
    await on.once()
    assert on.condition("Progressing")["reason"] == "AsDeclared"


async def test_without_the_field_authentication_is_off_and_its_status_is_gone(on):
    body = on.body
    del body["spec"]["auth"]
    body["metadata"]["generation"] += 1
    on.kube.put(ETCD_CLUSTERS, body)
    on.kube.calls.clear()
    await on.run()

    assert not on.accounts.enabled
    assert on.accounts.passwords == {}
    assert on.kube.calls["get EtcdCluster"], "nobody is let in on an old view's word"
    assert "auth" not in on.status
    assert "AuthenticationOff" in on.events.reasons()


async def test_authentication_turned_on_by_hand_without_the_field_is_left_alone(bench):
    bench.declare(TLS=MANAGED)
    await bench.run()
    bench.accounts.passwords["root"], bench.accounts.granted["root"] = "x", {"root"}
    bench.accounts.do(Enable())
    minutes(bench)
    await bench.run()

    assert bench.accounts.enabled
    assert bench.accounts.calls == []
    assert bench.condition("Blocked") is None


async def test_turning_client_tls_off_locked_the_operator_out_of_a_cluster_with_manual_users(
    bench,
):
    """The spec has no users, so etcd was not asked whether authentication is on."""
    bench.declare(TLS=MANAGED)
    await bench.run()
    bench.accounts.passwords["root"], bench.accounts.granted["root"] = "x", {"root"}
    bench.accounts.do(Enable())
    body = bench.body
    body["spec"]["TLS"] = {"peer": "Managed", "client": "Plaintext"}
    body["metadata"]["generation"] += 1
    bench.kube.put(ETCD_CLUSTERS, body)
    minutes(bench)
    await bench.run()

    record = read_secret(bench.kube.live(SECRETS, "a-start")).bootstrap
    assert record.links.client.level is Level.TLS
    blocked = bench.condition("Blocked")
    assert blocked["reason"] == "AuthenticationNeedsTLS"
    assert "etcdctl --user root auth disable" in blocked["message"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda bench: bench.kube.remove(SECRETS, "default", "web"), "Secret web does not exist"),
        (lambda bench: put_password(bench, "web", "x", "other"), "Secret web has no key pw"),
        (lambda bench: put_password(bench, "web", "", "pw"), "pw of Secret web is empty"),
        (lambda bench: put_password(bench, "web", "x\n", "pw"), "line break"),
        (lambda bench: put_password(bench, "web", "x" * 73, "pw"), "has 73 bytes"),
    ],
    ids=["no Secret", "no key", "empty", "line break", "too long"],
)
async def test_a_mistake_in_a_secret_is_reported_and_its_correction_noticed_within_seconds(
    bench, spoil, words
):
    spoil(bench)
    bench.declare(TLS=MANAGED, auth=AUTH)
    for _ in range(40):
        await bench.once()
        bench.nodes.turn()
        bench.clock.now += 1
    blocked = bench.condition("Blocked")
    assert blocked["reason"] == "AuthSecretUnusable"
    assert words in blocked["message"]
    assert "spec.auth.users[0].secret" in blocked["message"]
    assert not bench.accounts.enabled

    put_password(bench, "web", "web-secret-1", "pw")
    for _ in range(20):
        await bench.once()
        bench.clock.now += 1
    assert bench.accounts.enabled
    assert bench.condition("Blocked") is None


async def test_a_user_without_a_password_is_reported_once_and_not_tried_again(on):
    on.accounts.do(DeleteUser("web"))
    on.accounts.do(AddUser("web"), "")
    on.accounts.passwordless.add("web")
    minutes(on)
    await on.run()
    blocked = on.condition("Blocked")
    assert blocked["reason"] == "UserWithoutPassword"
    assert "web" in blocked["message"]
    assert on.events.reasons().count("UserWithoutPassword") == 1

    on.accounts.calls.clear()
    await on.rest(300)
    assert set(on.accounts.calls) == {"status"}
    assert len(on.accounts.calls) < 10

    put_password(on, "root", "root-secret-2")
    minutes(on)
    await on.run()
    assert on.accounts.passwords["root"] == "root-secret-2"

    on.accounts.do(DeleteUser("web"))
    minutes(on)
    await on.run()
    assert on.accounts.passwords["web"] == "web-secret-1"
    assert on.condition("Blocked") is None


async def test_etcds_error_for_a_user_without_a_password_is_an_answer():
    """It is not in etcd's table of errors (3.5 to 3.7), so gRPC gives it the code `UNKNOWN`."""

    class Says(GrpcEtcd):
        words = ""

        async def read(self, at, _ask):
            raise _meaning(at, self)

        def code(self):
            return rpc.StatusCode.UNKNOWN

        def details(self):
            return self.words

    etcd, at = Says(), Endpoint("127.0.0.1")
    etcd.words = "auth: authentication failed, password was given for no password user"
    assert await GrpcAccounts(etcd).try_password(at, "web", "x") == "has none"
    etcd.words = "something else"
    with pytest.raises(NoAnswer):
        await GrpcAccounts(etcd).try_password(at, "web", "x")


async def test_a_permission_of_a_type_that_etcd_does_not_know_ended_each_look_at_the_cluster():
    """etcd stores any number, and it grants nothing."""

    class Stored:
        async def read(self, _at, _ask):
            known = rpc.Permission(permType=rpc.Permission.READ, key=b"/web/", range_end=b"/web0")
            return rpc.AuthRoleGetResponse(perm=[known, rpc.Permission(permType=7, key=b"x")])

    found = await GrpcAccounts(Stored()).permissions_of(Endpoint("127.0.0.1"), "web")

    assert found == {Permission("Read", b"/web/", b"/web0")}


async def test_a_password_that_took_seconds_to_hash_was_never_tried_or_set(monkeypatch):
    """With a high `bcrypt-cost`. Versions and restarts waited for it."""
    monkeypatch.setattr(accounts, "CHANGE_SECONDS", 0.05)
    allowed = dict[str, float]()

    class Asked:
        async def read(self, _at, ask):
            await ask(None)

        change = read

    def stub(_channel):
        return Stub()

    class Stub:
        def __getattr__(self, method):
            async def said(_request, **within):
                allowed[method] = within["timeout"]

            return said

    monkeypatch.setattr(accounts.rpc, "AuthStub", stub)
    asked = GrpcAccounts(Asked())
    at = Endpoint("127.0.0.1")

    await asked.try_password(at, "web", "x")
    for change in (AddUser("web"), SetPassword("web"), DeleteUser("web")):
        await asked.change(at, change, "x")

    assert allowed == {
        "Authenticate": PASSWORD_SECONDS,
        "UserAdd": PASSWORD_SECONDS,
        "UserChangePassword": PASSWORD_SECONDS,
        "UserDelete": 0.05,
    }


async def test_passwords_that_take_minutes_to_hash_leave_time_for_other_steps(on, monkeypatch):
    monkeypatch.setattr(auth_look, "LONGEST_SECONDS", 0.01)

    async def slow(_at, user, _password):
        on.accounts.calls.append(f"try {user}")
        await asyncio.sleep(60)

    monkeypatch.setattr(on.accounts, "try_password", slow)
    on.accounts.do(SetPassword("web"), "another")
    minutes(on)

    async with asyncio.timeout(5):
        await on.once()
        await on.once()

    assert "try root" in on.accounts.calls
    assert "users and roles" in on.status["plan"]


async def test_more_passwords_than_could_be_tried_in_one_look_were_tried_from_the_first_for_ever(
    on, monkeypatch
):
    """Members with little CPU take seconds for one. All that comes after users and roles, such as a
    new version, waited without end, and etcd was kept busy."""
    status, right, tried = on.accounts.status, on.accounts.try_password, []

    async def begins(at):
        tried.clear()
        return await status(at)

    async def slow(at, user, password):
        tried.append(user)
        if len(tried) > 1:
            raise NoAnswer("Deadline Exceeded")
        return await right(at, user, password)

    monkeypatch.setattr(on.accounts, "status", begins)
    monkeypatch.setattr(on.accounts, "try_password", slow)
    on.accounts.do(SetPassword("web"), "another")
    for _ in range(6):
        minutes(on)
        await on.run()

    assert on.accounts.passwords["web"] == "web-secret-1"
    assert on.status["plan"] == "nothing to do"
    minutes(on)
    await on.run()
    assert not tried


async def test_users_had_to_be_given_up_for_another_authority_in_place_of_a_lost_one(on):
    """TLS for clients was to be turned off, and so everybody could have read and written all
    keys."""
    on.kube.remove(SECRETS, "default", "a-client-ca")
    await on.run()
    told = on.condition("Blocked")["message"]
    assert "if there is no copy, delete Secret a-server-tls and then all pods" in told

    on.kube.remove(SECRETS, "default", "a-server-tls")
    await on.delete_pods(passes=10)
    await on.run()

    assert on.kube.find(SECRETS, "a-client-ca")
    assert on.condition("Progressing")["reason"] == "AsDeclared"
    assert on.accounts.enabled


async def test_members_that_deny_the_operator_are_reported_and_nothing_is_done(bench):
    bench.declare(TLS={"peer": "Plaintext", "client": "Plaintext"})
    await bench.run()
    bench.etcd.denies = "user name is empty"
    bench.kube.log.clear()
    minutes(bench)
    await bench.run()

    blocked = bench.condition("Blocked")
    assert bench.condition("Available")["status"] == "True"
    assert blocked["reason"] == "AuthenticationRefused"
    assert "auth disable" in blocked["message"]
    assert not [one for one in bench.kube.log if "EtcdCluster" not in one]


async def test_no_password_is_in_a_log_a_status_an_event_or_a_write(bench, caplog):
    caplog.set_level(logging.DEBUG)
    bench.declare(TLS=MANAGED, auth=AUTH)
    await bench.run()
    put_password(bench, "web", "web-secret-2", "pw")
    minutes(bench)
    await bench.run()
    assert bench.accounts.passwords["web"] == "web-secret-2"

    theirs = ("root", "web")
    ours = [one for one in bench.kube.objects.values() if one["metadata"]["name"] not in theirs]
    told = f"{caplog.text} {bench.status} {bench.events.posted} {ours}"
    for word in SECRET_WORDS:
        assert word not in told
        assert base64.b64encode(word.encode()).decode() not in told


async def test_nothing_is_remembered_of_a_deleted_cluster(on):
    on.kube.remove(ETCD_CLUSTERS, "default", "a")
    await on.once()
    look = on.reconciler._observer._passwords
    assert not look._found
    assert not look._secrets._reads


async def test_a_secret_that_is_no_longer_named_was_kept_until_the_cluster_was_gone(on):
    put_password(on, "other", "web-secret-1", "pw")
    web = {**AUTH["users"][0], "secret": {"name": "other", "key": "pw"}}
    spec = on.body["spec"] | {"auth": AUTH | {"users": [web]}}
    on.kube.put(ETCD_CLUSTERS, on.body | {"spec": spec})
    await on.run()

    assert set(on.reconciler._observer._passwords._secrets._reads[KEY]) == {"root", "other"}
