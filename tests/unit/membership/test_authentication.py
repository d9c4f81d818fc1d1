"""Users and roles become as declared, one step at a time, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_accounts import FakeAccounts
from views import with_members
from worlds import UID, World, body, drive, is_write

from etcd_stateful.api.auth import Permission
from etcd_stateful.api.stores import Store
from etcd_stateful.certificates import Role
from etcd_stateful.membership.observation import Observation
from etcd_stateful.membership.planner import decide
from etcd_stateful.membership.steps import ChangeAuth, Hold, Settled, Step, WriteBootstrap
from etcd_stateful.membership.tls import tls_switch
from etcd_stateful.membership.tls.certificates import provided_needs
from etcd_stateful.membership.upkeep import authentication
from etcd_stateful.membership.upkeep.accounts import (
    AddRole,
    AddUser,
    DeleteRole,
    DeleteUser,
    Disable,
    Enable,
    GrantPermission,
    GrantRole,
    RevokePermission,
    SetPassword,
    is_carried_out,
)
from etcd_stateful.observed.certificates import Certificate, Certificates
from etcd_stateful.records import takeover
from etcd_stateful.records.successor import successor
from etcd_stateful.status.outcome import LONGEST_MESSAGE

STATIC = {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}}
PLAINTEXT = {"peer": "Plaintext", "client": "Plaintext"}
WEB = {"name": "web", "permissions": [{"access": "ReadWrite", "prefix": "/web/"}]}
AUTH = {
    "rootSecret": {"name": "root"},
    "roles": [WEB],
    "users": [{"name": "web", "secret": {"name": "web"}, "roles": ["web"]}],
}
NEW = {"name": "new", "secret": {"name": "new"}, "roles": ["web"]}
ALL_OF_WEB = Permission("ReadWrite", b"/web/", b"/web0")


class AuthWorld(World):
    """The tiny world with etcd's accounts, and with Secrets that have passwords."""

    def __init__(self, resource):
        super().__init__(resource)
        self.accounts = FakeAccounts()
        self.secrets = {"root": "r1", "web": "w1"}
        self.problems: dict[str, str] = {}
        self.subject = "root"
        self.unusable = ""
        """What is wrong with the operator's certificate."""
        self.denied = ""

    def observe(self) -> Observation:
        seen = super().observe()
        if self.denied:
            return replace(seen, etcd=None, statuses={}, denied=self.denied)
        links = tls_switch.next_links(seen)
        to_come = replace(seen, cluster=replace(seen.cluster, links=links))
        shown = {
            need.secret: {need.role: self._certificate(need.role)}
            for need in (*provided_needs(seen), *provided_needs(to_come))
        }
        seen = replace(seen, passwords=self._passwords(), certificates=Certificates(0.0, shown))
        auth = seen.cluster.auth
        if not authentication.is_looked_at(seen) or seen.etcd is None:
            return seen
        if self.accounts.enabled and self.subject != "root":
            # Every user may list the members, but do no more (seen on 3.5 to 3.7).
            return replace(seen, auth=None)
        view = self.accounts.view()
        if auth and view.enabled and is_carried_out(auth, view, self.secrets):
            tried = {user.name for user in auth.users} & self.secrets.keys()
            view = self.accounts.view({name: self.secrets[name] for name in tried})
        return replace(seen, auth=view)

    def _certificate(self, role: Role) -> Certificate:
        return Certificate("1", self.unusable if role == "operator" else "", subject=self.subject)

    def _passwords(self) -> dict[str, str]:
        return {**dict.fromkeys(self.secrets, ""), **self.problems}

    def apply(self, step: Step) -> None:
        if isinstance(step, ChangeAuth):
            self.accounts.do(step.change, self.secrets.get(getattr(step.change, "user", ""), ""))
            self.history.append(step)
        else:
            super().apply(step)

    def declare(self, **auth) -> None:
        self.body["spec"]["auth"] = {**AUTH, **auth}
        self.body["metadata"]["generation"] += 1

    @property
    def changes(self) -> list[object]:
        return [step.change for step in self.history if isinstance(step, ChangeAuth)]


def world(size: int = 3, **spec) -> AuthWorld:
    found = AuthWorld(body(size, **{"TLS": STATIC, **spec}))
    drive(found, idle=2)
    return found


def restore_in_place(world: AuthWorld) -> None:
    """Leaves of the record what a restore in place does, and restores data from before
    authentication was on, with a root that has no password."""
    store = Store("S3", "bucket", "key")
    taking = successor(
        cluster_uid=UID,
        restore="uid-r",
        epoch=2,
        first=("c-3", "u"),
        bump=1,
        raised_by=1,
        store=store,
        backup="",
    )
    kept = takeover.taken_over(world.record, taking).accounts
    world._store(replace(world.record, accounts=kept))
    world.accounts = FakeAccounts()
    world.accounts.do(AddUser("root"))
    world.accounts.passwordless = {"root"}


def _keep_from_starting(world: AuthWorld) -> None:
    world.pods[1].trouble = "its node is away"
    world.pods[1].where = "pending"


def _change(step: Step) -> object:
    assert isinstance(step, ChangeAuth)
    return step.change


@pytest.fixture
def on() -> AuthWorld:
    found = world(auth=AUTH)
    assert found.accounts.enabled
    found.history.clear()
    return found


class TestOn:
    def test_everything_declared_exists_before_authentication_is_turned_on(self) -> None:
        made = world(auth=AUTH).changes

        assert made == [
            AddRole("web"),
            GrantPermission("web", ALL_OF_WEB),
            AddUser("root"),
            GrantRole("root", "root"),
            AddUser("web"),
            GrantRole("web", "web"),
            Enable(),
        ]

    def test_users_and_roles_are_recorded_before_they_are_created(self) -> None:
        found = world(auth=AUTH)
        first = next(at for at, one in enumerate(found.history) if isinstance(one, ChangeAuth))
        before = [one for one in found.history[:first] if isinstance(one, WriteBootstrap)]

        assert before[-1].record.accounts.users == ("root", "web")
        assert before[-1].record.accounts.roles == ("web",)

    def test_it_is_turned_on_in_a_running_cluster(self) -> None:
        found = world()
        found.declare()

        assert drive(found, idle=2) == Settled()
        assert found.accounts.passwords == {"root": "r1", "web": "w1"}

    def test_it_was_turned_on_before_pods_served_tls_and_the_operator_was_locked_out(self) -> None:
        """TLS and users were declared in one edit, and the controller had yet to see the template:
        no pod counted as outdated. etcd cannot tell over plaintext who the operator is."""
        found = world(TLS=PLAINTEXT)
        found.edit(TLS=STATIC)
        found.declare()
        while is_write(step := decide(found.observe())):
            found.apply(step)
        assert not found.changes

        assert drive(found, idle=2) == Settled()
        assert found.accounts.enabled

    def test_turned_off_by_hand_it_is_turned_on_again_and_reported(self, on) -> None:
        on.accounts.enabled = False
        step = decide(on.observe())

        assert isinstance(step, ChangeAuth)
        assert step.change == Enable()
        assert "turned off" in step.reason

    def test_it_stayed_off_while_a_pod_could_not_start(self, on) -> None:
        """Meanwhile everybody with a certificate could read and write all keys."""
        on.accounts.enabled = False
        _keep_from_starting(on)

        step = decide(on.observe())
        assert isinstance(step, ChangeAuth)
        assert step.change == Enable()

    def test_it_stayed_off_until_the_cluster_had_grown(self, on) -> None:
        on.accounts.enabled = False
        on.body["spec"]["size"] = 5
        drive(on, idle=2)
        order = [type(one).__name__ for one in on.history]

        assert order.index("ChangeAuth") < order.index("MemberAddLearner")

    def test_it_is_not_turned_on_again_before_a_role_that_was_deleted_is_back(self, on) -> None:
        on.accounts.enabled = False
        on.accounts.do(DeleteRole("web"))
        _keep_from_starting(on)

        assert _change(decide(on.observe())) == AddRole("web")

    def test_a_password_that_has_leaked_stayed_valid_while_a_node_was_away(self, on) -> None:
        """So did every other change of users and roles: it waited for all members to serve."""
        on.secrets["web"] = "w2"
        _keep_from_starting(on)

        assert _change(decide(on.observe())) == SetPassword("web")

    def test_so_did_a_user_that_the_spec_no_longer_has_while_somebody_had_to_act(self, on) -> None:
        on.declare(users=[])
        seen = on.observe()
        *others, last = sorted(seen.members, key=lambda one: one.member_id)
        moved = replace(last, peer_urls=("http://elsewhere:2380",))  # the first one leads
        seen = with_members(seen, *others, moved)

        assert _change(decide(seen)) == DeleteUser("web")
        assert isinstance(decide(replace(seen, auth=None)), Hold)

    def test_not_while_it_is_unknown_which_cluster_is_the_right_one(self, on) -> None:
        on.accounts.do(DeleteUser("web"))
        step = decide(replace(on.observe(), strangers={1: 7}))

        assert isinstance(step, Hold)
        assert step.reason == "SplitBrain"

    def test_users_were_changed_by_the_record_of_another_cluster(self, on) -> None:
        """Somebody had put the Secret of an earlier cluster of this name back, whose data this one
        has adopted."""
        made = replace(on.record.accounts, users=("root", "theirs", "web"))
        on._store(replace(on.record, cluster_uid="another", accounts=made))
        on.accounts.do(AddUser("theirs"), "x")
        step = decide(on.observe())

        assert isinstance(step, Hold)
        assert step.reason == "SecretOfAnotherCluster"

    def test_not_while_it_is_paused(self, on) -> None:
        on.accounts.do(DeleteUser("web"))
        on.edit(paused=True)

        assert isinstance(decide(on.observe()), Hold)

    def test_what_can_be_done_for_members_comes_first(self, on) -> None:
        on.accounts.do(DeleteUser("web"))
        on.body["spec"]["size"] = 5

        def note(step: Step) -> None:
            if isinstance(step, ChangeAuth):
                assert not is_write(decide(replace(on.observe(), auth=None)))

        assert drive(on, idle=2, each=note) == Settled()
        assert on.changes == [AddUser("web"), GrantRole("web", "web")]

    def test_after_a_kill_between_any_two_steps_the_next_operator_continues(self) -> None:
        """`drive` restarts the operator between steps. Here the answer to each change is lost as
        well."""
        found = world()
        found.declare()
        for _ in range(40):
            step = decide(found.observe())
            if isinstance(step, Settled):
                break
            found.apply(step)

        assert found.accounts.enabled
        assert len(found.changes) == len(set(found.changes)) == 7


class TestExistingRootUser:
    """A root user created by hand while authentication was off. Until it is on, etcd does not say
    whether a user has a password."""

    @pytest.fixture
    def found(self) -> AuthWorld:
        found = world()
        found.accounts.do(AddUser("root"))
        found.accounts.passwordless = {"root"}
        return found

    def test_a_manual_root_is_recreated_with_a_password_before_authentication_is_on(
        self, found
    ) -> None:
        found.declare()

        assert drive(found, idle=2) == Settled()

        assert found.changes[:2] == [DeleteUser("root"), AddRole("web")]
        assert found.changes.count(AddUser("root")) == 1
        assert found.accounts.enabled
        assert found.accounts.passwords["root"] == "r1"
        assert not found.accounts.passwordless

    def test_it_is_not_deleted_before_it_can_be_recreated(self, found) -> None:
        found.problems = {"root": "Secret root does not exist"}
        found.declare()
        drive(found, idle=2)

        assert DeleteUser("root") not in found.changes
        assert not found.accounts.enabled

    def test_nor_where_the_operator_would_be_locked_out(self, found) -> None:
        found.subject = "somebody"
        found.declare()
        drive(found, idle=2)

        assert "root" in found.accounts.passwords

    def test_while_authentication_is_on_it_stays(self, found) -> None:
        found.accounts.do(GrantRole("root", "root"))
        found.accounts.do(Enable())
        found.declare()
        step = drive(found, idle=2)

        assert DeleteUser("root") not in found.changes
        assert isinstance(step, Hold)
        assert step.reason == "UserWithoutPassword"

        found.accounts.do(Disable())
        assert drive(found, idle=2) == Settled()
        assert found.accounts.enabled
        assert found.accounts.passwords["root"] == "r1"

    def test_it_is_recreated_only_once(self, found) -> None:
        found.declare()
        drive(found, idle=2)
        found.history.clear()
        found.accounts.do(Disable())

        assert drive(found, idle=2) == Settled()

        assert found.changes == [Enable()]

    def test_a_root_from_a_backup_kept_the_cluster_from_ever_having_a_password_of_root(
        self, on
    ) -> None:
        """The backup is from before `spec.auth`, so its root may have no password."""
        restore_in_place(on)

        assert drive(on, idle=2) == Settled()

        assert on.changes[0] == DeleteUser("root")
        assert on.accounts.enabled
        assert on.accounts.passwords["root"] == "r1"

    def test_restored_data_is_not_left_open_until_root_can_be_recreated(self, on) -> None:
        restore_in_place(on)
        on.problems = {"root": "Secret root does not exist"}
        drive(on, idle=2)

        assert on.accounts.enabled

    def test_after_a_kill_between_any_two_steps_the_next_operator_continues(self, found) -> None:
        """`drive` restarts the operator between steps; here the spec changes in between as well."""
        found.declare()
        while DeleteUser("root") not in found.changes:
            found.apply(decide(found.observe()))
        del found.body["spec"]["auth"]
        assert drive(found, idle=2) == Settled()
        found.declare()

        assert drive(found, idle=2) == Settled()

        assert found.accounts.enabled
        assert found.accounts.passwords["root"] == "r1"


class TestEdits:
    def test_a_changed_permission_is_granted_without_a_revocation(self, on) -> None:
        read = {"access": "Read", "prefix": "/web/"}
        more = {"access": "Read", "key": "/motd"}
        on.declare(roles=[{"name": "web", "permissions": [more, read]}])
        drive(on, idle=2)

        assert on.accounts.permissions["web"] == {
            Permission("Read", b"/web/", b"/web0"),
            Permission("Read", b"/motd"),
        }
        assert not [one for one in on.changes if isinstance(one, RevokePermission)]

    def test_what_was_granted_by_hand_to_a_declared_role_or_user_is_revoked(self, on) -> None:
        on.accounts.do(GrantPermission("web", Permission("Read", b"/", b"0")))
        on.accounts.do(GrantRole("web", "root"))
        drive(on, idle=2)

        assert on.accounts.permissions["web"] == {ALL_OF_WEB}
        assert on.accounts.granted["web"] == {"web"}

    def test_users_and_roles_removed_from_the_spec_are_deleted_and_manual_ones_stay(
        self, on
    ) -> None:
        on.accounts.do(AddRole("theirs"))
        on.accounts.do(AddUser("them"), "x")
        on.accounts.do(GrantRole("them", "theirs"))
        on.declare(users=[], roles=[])
        assert drive(on, idle=2) == Settled()

        assert set(on.accounts.passwords) == {"root", "them"}
        assert set(on.accounts.permissions) == {"theirs"}
        assert on.accounts.granted["them"] == {"theirs"}
        assert on.record.accounts.users == ("root",)
        assert on.record.accounts.roles == ()

    def test_a_manual_user_that_was_declared_for_a_while_stays(self) -> None:
        found = world()
        found.accounts.do(AddUser("web"), "by hand")
        found.declare()
        drive(found, idle=2)
        assert found.accounts.passwords["web"] == "w1"
        found.declare(users=[])
        drive(found, idle=2)

        assert "web" in found.accounts.passwords

    def test_a_password_follows_its_secret_also_for_root(self, on) -> None:
        on.secrets = {"root": "r2", "web": "w2"}
        assert drive(on, idle=2) == Settled()

        assert on.accounts.passwords == {"root": "r2", "web": "w2"}
        assert on.changes == [SetPassword("root"), SetPassword("web")]

    def test_a_deleted_user_comes_back(self, on) -> None:
        on.accounts.do(DeleteUser("web"))
        drive(on, idle=2)

        assert on.accounts.passwords["web"] == "w1"


class TestOff:
    def test_it_is_turned_off_before_what_the_operator_created_is_deleted(self, on) -> None:
        on.accounts.do(AddUser("them"), "x")
        del on.body["spec"]["auth"]
        assert drive(on, idle=2) == Settled()

        assert on.changes[0] == Disable()
        assert set(on.accounts.passwords) == {"them"}
        assert not on.accounts.permissions
        assert not authentication.is_looked_at(on.observe())

    def test_authentication_that_was_turned_on_by_hand_and_never_declared_stays_on(self) -> None:
        found = world()
        found.accounts.do(AddUser("root"), "x")
        found.accounts.do(GrantRole("root", "root"))
        found.accounts.do(Enable())

        assert drive(found, idle=2) == Settled()
        assert found.accounts.enabled

    def test_of_accounts_made_by_hand_alone_too(self) -> None:
        found = world()
        found.accounts.do(AddUser("root"), "x")
        found.accounts.do(GrantRole("root", "root"))
        found.accounts.do(Enable())
        found.declare(users=[], roles=[])
        drive(found, idle=2)
        del found.body["spec"]["auth"]
        drive(found, idle=2)

        assert not found.accounts.enabled
        assert "root" in found.accounts.passwords


class TestHeld:
    def test_a_missing_secret_is_named_and_holds_only_what_needs_it(self) -> None:
        found = world()
        del found.secrets["web"]
        found.problems = {"web": "Secret web does not exist"}
        found.declare()
        step = drive(found, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "AuthSecretUnusable"
        assert "spec.auth.users[0].secret" in step.message
        assert "Secret web does not exist" in step.message
        assert not found.accounts.enabled
        assert "web" not in found.accounts.passwords

    def test_that_everybody_can_write_until_the_secret_is_there_was_not_said(self, on) -> None:
        found = world()
        for one in (found, on):
            one.declare(users=[*AUTH["users"], NEW])
            one.problems = {"new": "Secret new does not exist"}
        off, other = drive(found, idle=2), drive(on, idle=2)

        assert isinstance(off, Hold)
        assert "authentication is off until then: every client with a certificate" in off.message
        assert isinstance(other, Hold)
        assert "authentication is off" not in other.message

    def test_once_all_users_exist_the_secret_is_no_longer_needed(self, on) -> None:
        del on.secrets["web"]
        on.problems = {"web": "Secret web does not exist"}
        on.accounts.enabled = False
        step = drive(on, idle=2)

        assert on.accounts.enabled
        assert isinstance(step, Hold)
        assert on.accounts.passwords["web"] == "w1"

    def test_passwords_of_others_were_not_set_while_the_secret_of_one_new_user_was_missing(
        self, on
    ) -> None:
        on.declare(users=[*AUTH["users"], NEW])
        on.problems = {"new": "Secret new does not exist"}
        on.secrets |= {"root": "r2", "web": "w2"}
        step = drive(on, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "AuthSecretUnusable"
        assert on.accounts.passwords == {"root": "r2", "web": "w2"}

    def test_turned_off_by_hand_it_stayed_off_while_the_secret_of_one_new_user_was_missing(
        self, on
    ) -> None:
        """Everybody could read and write all keys until the Secret was there."""
        on.declare(users=[*AUTH["users"], NEW])
        on.problems = {"new": "Secret new does not exist"}
        on.accounts.enabled = False
        step = drive(on, idle=2)

        assert isinstance(step, Hold)
        assert on.accounts.enabled
        assert "new" not in on.accounts.passwords

    def test_it_stays_off_without_a_root_that_can_be_created(self, on) -> None:
        """etcd would refuse to turn it on."""
        on.accounts.enabled = False
        on.accounts.do(DeleteUser("root"))
        del on.secrets["root"]
        on.problems = {"root": "Secret root does not exist"}

        assert isinstance(drive(on, idle=2), Hold)
        assert not on.accounts.enabled

    def test_a_user_without_a_password_is_named_and_the_others_are_updated(self, on) -> None:
        on.accounts.passwordless = {"web"}
        on.secrets = {"root": "r2", "web": "w2"}
        step = drive(on, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "UserWithoutPassword"
        assert "etcdctl --user root user delete web" in step.message
        assert "spec.paused" not in step.message
        assert on.changes == [SetPassword("root")]

        on.accounts.do(DeleteUser("web"))
        assert drive(on, idle=2) == Settled()
        assert on.accounts.passwords["web"] == "w2"
        assert on.accounts.granted["web"] == {"web"}

    def test_a_root_without_a_password_can_be_recreated_the_way_the_message_says(self, on) -> None:
        on.accounts.passwordless = {"root"}
        step = drive(on, idle=2)
        assert isinstance(step, Hold)
        assert step.reason == "UserWithoutPassword"
        assert "spec.paused" in step.message
        assert "Secret o" in step.message

        on.body["spec"]["paused"] = True
        on.accounts.do(Disable())
        on.accounts.do(DeleteUser("root"))
        assert isinstance(decide(on.observe()), Hold)
        del on.body["spec"]["paused"]
        assert drive(on, idle=2) == Settled()
        assert on.accounts.enabled
        assert on.accounts.passwords["root"] == "r1"

    def test_both_reasons_fit_into_the_condition(self, on) -> None:
        """Nobody can log in as root by password then."""
        on.accounts.passwordless = {"root", "web"}
        step = drive(on, idle=2)

        assert isinstance(step, Hold)
        assert "with the certificate in Secret o, etcdctl user delete web" in step.message
        assert len(step.message) <= LONGEST_MESSAGE

    def test_it_is_not_turned_on_if_the_operators_certificate_has_another_name(self) -> None:
        found = world()
        found.subject = "somebody"
        found.declare()
        step = drive(found, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationImpossible"
        assert "Secret o" in step.message
        assert "'somebody'" in step.message
        assert not found.changes

    def test_without_the_field_it_says_why_authentication_stays_on(self, on) -> None:
        """etcd's users and roles were waited for, for good, and so was a change of the version."""
        on.subject = "somebody"
        del on.body["spec"]["auth"]
        step = drive(on, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationImpossible"
        assert "Secret o" in step.message
        assert "auth disable" in step.message
        on.edit(pod={"labels": {"a": "1"}}, version="3.7.2")
        drive(on, idle=2)
        assert on.record.version == "3.7.2"

        on.subject = "root"
        assert drive(on, idle=2) == Settled()
        assert not on.accounts.enabled

    def test_it_is_not_turned_on_in_plaintext(self) -> None:
        found = world(TLS=PLAINTEXT, auth=AUTH)
        step = decide(found.observe())

        assert isinstance(step, Hold)
        assert "plaintext" in step.message
        assert not found.changes

    def test_passwords_were_sent_in_plaintext_while_the_operators_certificate_had_expired(
        self,
    ) -> None:
        """It connects without one where members also serve plaintext. With authentication on, etcd
        would not have let it in any more."""
        found = world(TLS={**STATIC, "allowPlaintextClients": True})
        found.unusable = "etcd-client.crt expired on 2026-01-01T00:00:00Z"
        found.declare()
        step = drive(found, idle=2)

        assert isinstance(step, Hold)
        assert step.reason == "CertificatesUnusable"
        assert not found.changes

        found.unusable = ""
        assert drive(found, idle=2) == Settled()
        assert found.accounts.enabled

    def test_passwords_were_sent_in_plaintext_while_no_certificate_of_the_operator_was_seen(
        self,
    ) -> None:
        found = world(TLS={**STATIC, "allowPlaintextClients": True})
        found.declare()
        while authentication.next_change(seen := found.observe()) is None:
            step = decide(seen)
            found.apply(step) if is_write(step) else found.turn()

        assert authentication.next_change(replace(seen, certificates=None)) is None

    def test_members_that_deny_the_operator_are_not_a_lost_quorum(self, on) -> None:
        on.denied = "permission denied"
        step = decide(on.observe())

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationRefused"
        assert "permission denied" in step.message

    def test_in_plaintext_the_message_says_what_to_do(self) -> None:
        found = world(TLS=PLAINTEXT)
        found.denied = "user name is empty"
        step = decide(found.observe())

        assert isinstance(step, Hold)
        assert "auth disable" in step.message

    def test_in_plaintext_the_message_named_a_way_out_that_does_not_work(self) -> None:
        """It named fields of the spec. None of them takes effect while etcd denies every
        request."""
        found = world(TLS=PLAINTEXT, auth=AUTH)
        found.denied = "user name is empty"
        step = decide(found.observe())

        assert isinstance(step, Hold)
        assert step.reason == "AuthenticationRefused"
        assert "spec." not in step.message
