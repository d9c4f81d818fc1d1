"""Users, roles and passwords on real members of every minor, by the operator's own steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from addresses import own_address
from aetcd import rpc
from auth_live import Secured
from worlds import World, body, drive

from etcd_operator.etcd import auth_look
from etcd_operator.etcd.accounts import GrpcAccounts
from etcd_operator.etcd.api import Denied, Refused
from etcd_operator.etcd.client import open_channel
from etcd_operator.recover.gateway import Gateway, Unfinished
from etcd_stateful.membership.steps import ChangeAuth, WriteBootstrap
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.membership.upkeep.accounts import (
    AddRole,
    AddUser,
    DeleteUser,
    Disable,
    Enable,
    GrantRole,
    SetPassword,
)
from localkube.s3 import free_port

pytestmark = pytest.mark.integration

STATIC = {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}}
AUTH = {
    "rootSecret": {"name": "root"},
    "roles": [
        {"name": "web", "permissions": [{"access": "ReadWrite", "prefix": "/web/"}]},
        {
            "name": "all",
            "permissions": [
                {"access": "Read", "prefix": ""},
                {"access": "Write", "key": "a"},
                {"access": "ReadWrite", "key": "b", "rangeEnd": "d"},
            ],
        },
    ],
    "users": [
        {"name": "web", "secret": {"name": "web"}, "roles": ["web"]},
        {"name": "both", "secret": {"name": "both"}, "roles": ["web", "all"]},
    ],
}


class Declared:
    """A spec, carried out on a real member by look, decision and change."""

    def __init__(self, secured, etcd):
        self.accounts = GrpcAccounts(etcd)
        self.at = secured.at("root")
        self.world = World(body(1, TLS=STATIC))
        drive(self.world, idle=2)
        self.passwords = {"root": "r1", "web": "w1", "both": "b1"}
        self.looked = None

    def say(self, auth):
        self.world.body["spec"].pop("auth", None)
        if auth is not None:
            self.world.body["spec"]["auth"] = auth

    async def carry_out(self):
        """What was done, until nothing is left to do."""
        done = []
        for _ in range(80):
            step = await self.next_step()
            match step:
                case None:
                    return done
                case WriteBootstrap():
                    self.world.apply(step)
                case ChangeAuth(change=change):
                    done.append(change)
                    password = self.passwords.get(getattr(change, "user", ""), "")
                    await self.accounts.change(self.at, change, password)
        raise AssertionError(f"no end of it: {done[-5:]}")

    async def next_step(self):
        base = self.observed()
        if not authentication.is_looked_at(base):
            return None
        self.looked = await auth_look.look(
            self.accounts, self.at, base, self.passwords, self.looked
        )
        assert self.looked is not None
        return authentication.advance(self.observed())

    def observed(self):
        base = self.world.observe()
        base = replace(base, passwords=dict.fromkeys(self.passwords, ""))
        return replace(base, auth=self.looked.view if self.looked else None)


@pytest.fixture
async def secured(cluster, data):
    found = Secured(cluster, data)
    found.etcd = await found.ready()
    return found


@pytest.fixture
def declared(secured):
    return Declared(secured, secured.etcd)


async def put(at, key, token=""):
    async with open_channel(at) as channel:
        metadata = (("token", token),) if token else ()
        request = rpc.PutRequest(key=key, value=b"v")
        await rpc.KVStub(channel).Put(request, timeout=5, metadata=metadata)


async def log_in(at, user, password):
    async with open_channel(at) as channel:
        request = rpc.AuthenticateRequest(name=user, password=password)
        return (await rpc.AuthStub(channel).Authenticate(request, timeout=5)).token


async def test_declared_users_and_roles_are_applied_and_a_second_pass_changes_nothing(
    secured, declared
):
    declared.say(AUTH)
    done = await declared.carry_out()
    assert done[-1] == Enable()
    assert await declared.carry_out() == []

    anybody = secured.at("anybody")
    with pytest.raises(rpc.AioRpcError, match="permission denied"):
        await put(anybody, b"/web/a")
    token = await log_in(anybody, "web", "w1")
    await put(anybody, b"/web/a", token)
    with pytest.raises(rpc.AioRpcError, match="permission denied"):
        await put(anybody, b"/other", token)


async def test_the_operator_needs_no_password_for_any_request(secured, declared):
    declared.say(AUTH)
    await declared.carry_out()
    etcd, at = secured.etcd, secured.at("root")

    status = await etcd.status(at)
    assert len((await etcd.member_list(at)).members) == 1
    assert await etcd.alarms(at) == ()
    assert (await etcd.hash_kv(at, 0)).value
    member = status.member_id
    for asked in (
        etcd.member_promote(at, member),
        etcd.move_leader(at, member ^ 1),
    ):
        with pytest.raises(Refused) as refused:
            await asked
        assert not isinstance(refused.value, Denied)
    added = await etcd.member_add_learner(at, "http://127.0.0.1:1")
    await etcd.member_remove(at, added)


async def test_a_certificate_of_another_name_is_denied_which_is_not_taken_for_silence(
    secured, declared
):
    """Any name may read the member list; data and changes are for root only."""
    declared.say(AUTH)
    await declared.carry_out()
    stranger, etcd = secured.at("etcd-operator"), secured.etcd

    assert (await etcd.status(stranger)).leader_id
    assert (await etcd.member_list(stranger)).members
    with pytest.raises(Denied):
        await etcd.hash_kv(stranger, 0)
    with pytest.raises(Denied):
        await etcd.member_add_learner(stranger, "http://127.0.0.1:1")


async def test_without_tls_etcd_denies_every_request_of_the_operator(cluster):
    cluster.begin(1)
    etcd, at = await cluster.ready(), cluster.at(cluster.first[0])
    accounts = GrpcAccounts(etcd)
    for change in (AddUser("root"), GrantRole("root", "root"), Enable()):
        await accounts.change(at, change, "by hand")

    with pytest.raises(Denied):
        await etcd.status(at)
    with pytest.raises(Denied):
        await etcd.member_list(at)


async def test_with_nothing_changed_only_one_request_is_sent(declared):
    declared.say(AUTH)
    await declared.carry_out()
    await declared.next_step()
    asked = []
    real = declared.accounts._read
    declared.accounts._read = lambda at, method, request: (
        asked.append(method),
        real(at, method, request),
    )[1]

    assert await declared.next_step() is None
    assert asked == ["AuthStatus"]


async def test_a_password_changed_in_a_secret_or_by_hand_is_set_again(secured, declared):
    declared.say(AUTH)
    await declared.carry_out()
    declared.passwords |= {"web": "w2", "root": "r2"}
    assert await declared.carry_out() == [SetPassword("root"), SetPassword("web")]
    assert await log_in(secured.at("x"), "web", "w2")
    assert await log_in(secured.at("x"), "root", "r2")

    await declared.accounts.change(declared.at, SetPassword("web"), "by hand")
    assert await declared.carry_out() == [SetPassword("web")]


async def add_without_password(at, user):
    async with open_channel(at) as channel:
        options = rpc.UserAddOptions(no_password=True)
        request = rpc.AuthUserAddRequest(name=user, options=options)
        await rpc.AuthStub(channel).UserAdd(request, timeout=5)


async def test_a_user_without_a_password_is_reported_and_recreated_once_deleted(secured, declared):
    """As `etcdctl user add web --no-password` makes it. No change of its password gives it one."""
    declared.say(AUTH)
    await add_without_password(declared.at, "web")
    await declared.carry_out()
    await declared.accounts.change(declared.at, SetPassword("web"), "w1")
    declared.passwords["root"] = "r2"

    assert await declared.carry_out() == [SetPassword("root")]
    assert declared.looked.view.passwordless == {"web"}
    held = authentication.why_not_applied(declared.observed())
    assert held.reason == authentication.PASSWORDLESS

    await declared.accounts.change(declared.at, DeleteUser("web"), "")
    assert (await declared.carry_out())[0] == AddUser("web")
    assert await log_in(secured.at("x"), "web", "w1")
    assert authentication.why_not_applied(declared.observed()) is None


async def test_a_root_user_without_a_password_is_recreated_before_authentication_is_on(
    secured, declared
):
    declared.say(AUTH)
    await add_without_password(declared.at, "root")
    done = await declared.carry_out()

    assert done[0] == DeleteUser("root")
    assert done[-1] == Enable()
    assert await log_in(secured.at("x"), "root", "r1")
    assert authentication.why_not_applied(declared.observed()) is None


async def test_a_root_user_without_a_password_is_recreated_after_the_documented_steps(
    secured, declared
):
    await add_without_password(declared.at, "root")
    for change in (GrantRole("root", "root"), Enable()):
        await declared.accounts.change(declared.at, change, "")
    declared.say(AUTH)
    await declared.carry_out()
    held = authentication.why_not_applied(declared.observed())
    assert held.reason == authentication.PASSWORDLESS
    assert (await secured.etcd.member_list(secured.at("root"))).members

    with pytest.raises(Refused):
        await declared.accounts.change(declared.at, DeleteUser("root"), "")
    await declared.accounts.change(declared.at, Disable(), "")
    await declared.accounts.change(declared.at, DeleteUser("root"), "")
    done = await declared.carry_out()
    assert AddUser("root") in done
    assert done[-1] == Enable()
    assert await log_in(secured.at("x"), "root", "r1")


async def test_authentication_turned_off_by_hand_is_turned_on_again_until_the_spec_drops_it(
    secured, declared
):
    await declared.accounts.change(declared.at, AddUser("them"), "x")
    declared.say(AUTH)
    await declared.carry_out()
    await declared.accounts.change(declared.at, Disable(), "")
    assert await declared.carry_out() == [Enable()]

    declared.say(None)
    done = await declared.carry_out()
    assert done[0] == Disable()
    assert await declared.accounts.users(declared.at) == {"them"}
    assert await declared.accounts.roles(declared.at) == frozenset()
    await put(secured.at("anybody"), b"k")


async def test_the_operator_manages_authentication_that_was_turned_on_by_hand(secured, declared):
    """The password of root set by hand differs from the one in the Secret."""
    for change in (AddUser("root"), GrantRole("root", "root"), Enable()):
        await declared.accounts.change(declared.at, change, "by hand")
    assert (await secured.etcd.member_list(secured.at("root"))).members

    declared.say(AUTH)
    await declared.carry_out()
    assert await log_in(secured.at("x"), "root", "r1")


async def test_every_form_of_a_permission_is_read_back_as_granted(declared):
    declared.say(AUTH)
    await declared.carry_out()
    roles = declared.world.cluster.auth.roles
    for role in roles:
        found = await declared.accounts.permissions_of(declared.at, role.name)
        assert found == role.permissions


async def test_etcd_refuses_to_add_what_exists_already(declared):
    await declared.accounts.change(declared.at, AddRole("r"), "")
    with pytest.raises(Refused, match="already exists"):
        await declared.accounts.change(declared.at, AddRole("r"), "")
    with pytest.raises(Refused, match="not found"):
        await declared.accounts.change(declared.at, SetPassword("nobody"), "x")


async def test_a_recovery_s_job_logs_in_through_the_gateway(cluster, data):
    """It has no certificate to show there, and root's password as a file."""
    port, host = free_port(), own_address()
    urls = f"http://127.0.0.1:{port},http://{host}:2379"
    cluster.begin(1, host, listen_client_urls=urls)
    etcd, at = await cluster.ready(), cluster.at(cluster.first[0])
    accounts = GrpcAccounts(etcd)
    for change in (AddUser("root"), GrantRole("root", "root"), Enable()):
        await accounts.change(at, change, "r-1")

    (data / "password").write_text("r-1")
    listed = Gateway(port, str(data / "password")).call(
        "cluster/member/list", {"linearizable": True}
    )
    assert len(listed["members"]) == 1
    (data / "password").write_text("r-0")
    with pytest.raises(Unfinished, match="an older one"):
        Gateway(port, str(data / "password")).call("maintenance/status", {})


async def test_a_recovery_job_reports_that_root_has_no_password_to_log_in(cluster, data):
    port, host = free_port(), own_address()
    urls = f"http://127.0.0.1:{port},http://{host}:2379"
    cluster.begin(1, host, listen_client_urls=urls)
    etcd, at = await cluster.ready(), cluster.at(cluster.first[0])
    await add_without_password(at, "root")
    for change in (GrantRole("root", "root"), Enable()):
        await GrpcAccounts(etcd).change(at, change, "")

    (data / "password").write_text("r-1")
    with pytest.raises(Unfinished, match="restore a backup"):
        Gateway(port, str(data / "password")).call("maintenance/status", {})
